//! Execution. Each expectation was recorded from Go.

use super::templates::{gives, refuses, render, stops};

#[test]
fn an_error_shows_the_node_it_happened_at() {
    stops("{{len ($x := 3)}}", "1:2 at <len ($x := 3)>: error calling len: len of type int");
    stops("{{len ($x = 3)}}", "1:12 at <3>: undefined variable: $x");
    stops("{{$x := 1}}{{len ($x = 3)}}", "1:13 at <len ($x = 3)>: error calling len: len of type int");
    stops("{{len (3 | print 1).x}}", "1:17 at <1>: can't evaluate field x in type string");
    stops(
        "{{template `no` 1 | print}}",
        r#"1:11 at <{{template "no" 1 | print}}>: template "no" not defined"#,
    );
    stops("{{template `no`}}", r#"1:11 at <{{template "no"}}>: template "no" not defined"#);
    stops(r#"{{template "n\"o" .s}}"#, r#"1:11 at <{{template "n\"o" .s}}>: template "n\"o" not defined"#);
    stops("{{len (1 | and .t)}}", "1:2 at <len (1 | and .t)>: error calling len: len of type int");
    stops(
        "{{len nil}}",
        "1:2 at <len nil>: error calling len: reflect: call of reflect.Value.Type on zero Value",
    );
    stops("{{len true}}", "1:2 at <len true>: error calling len: len of type bool");
    stops("{{len 1.50}}", "1:2 at <len 1.50>: error calling len: len of type float64");
    stops("{{len 0x10}}", "1:2 at <len 0x10>: error calling len: len of type int");
    stops("{{len 'a'}}", "1:2 at <len 'a'>: error calling len: len of type int");
    stops("{{len .i}}", "1:2 at <len .i>: error calling len: len of type int");
    stops("{{len $.i}}", "1:2 at <len $.i>: error calling len: len of type int");
    stops("{{len .m.a}}", "1:2 at <len .m.a>: error calling len: len of type int");
    stops("{{.m.a | len}}", "1:9 at <len>: error calling len: len of type int");
    stops("{{.i | len}}", "1:7 at <len>: error calling len: len of type int");
    stops("{{print .s | len | len}}", "1:19 at <len>: error calling len: len of type int");
    stops("{{len `a` | len}}", "1:12 at <len>: error calling len: len of type int");
    stops(r#"{{len "\u0061" | len}}"#, "1:17 at <len>: error calling len: len of type int");
    stops("{{if len .i}}{{end}}", "1:5 at <len .i>: error calling len: len of type int");
    stops("{{with len .i}}{{end}}", "1:7 at <len .i>: error calling len: len of type int");
    stops("{{range len .i}}{{end}}", "1:8 at <len .i>: error calling len: len of type int");
    stops("{{range $i, $e := len .i}}{{end}}", "1:18 at <len .i>: error calling len: len of type int");
    stops("{{$x := len .i}}", "1:8 at <len .i>: error calling len: len of type int");
    stops("{{print (len .i)}}", "1:9 at <len .i>: error calling len: len of type int");
    stops(
        "{{print 1 (print 2 (len .i) true nil .)}}",
        "1:20 at <len .i>: error calling len: len of type int",
    );
    stops("{{index .l 5}}", "1:2 at <index .l 5>: error calling index: index out of range: 5");
    stops("{{(index .l 0).x}}", "1:12 at <0>: can't evaluate field x in type int");
    stops("{{(index .l 0 | print).x}}", "1:16 at <print>: can't evaluate field x in type string");
    stops("{{slice .l 2 1}}", "1:2 at <slice .l 2 1>: error calling slice: invalid slice index: 2 > 1");
    stops("{{call .s}}", "1:2 at <call .s>: error calling call: non-function .s of type string");
    stops("{{call .s 1}}", "1:2 at <call .s 1>: error calling call: non-function .s of type string");
    stops("{{call nil}}", "1:2 at <call nil>: error calling call: call of nil");
    stops("{{.s | call}}", "1:7 at <call>: error calling call: non-function hello of type string");
    stops("{{.i | call}}", "1:7 at <call>: error calling call: non-function <int Value> of type int");
    stops("{{.n | call}}", "1:7 at <call>: error calling call: call of nil");
    stops("{{.l | call 1}}", "1:7 at <call 1>: error calling call: non-function 1 of type int");
    stops("{{call .missing}}", "1:2 at <call .missing>: error calling call: call of nil");
    stops("{{call (1)}}", "1:2 at <call (1)>: error calling call: non-function 1 of type int");
    stops("{{printf 1}}", "1:9 at <1>: expected string; found 1");
    stops("{{printf .i}}", "1:9 at <.i>: wrong type for value; expected string; got int");
    stops("{{printf}}", "1:2 at <printf>: wrong number of args for printf: want at least 1 got 0");
    gives("{{`%d` | printf}}", "%!d(MISSING)");
    gives("{{3 | printf `%d`}}", "3");
    gives("{{print}}", "");
    gives("{{println}}", "\n");
    gives("{{html}}", "");
    stops("{{not}}", "1:2 at <not>: wrong number of args for not: want 1 got 0");
    stops("{{not 1 2}}", "1:2 at <not>: wrong number of args for not: want 1 got 2");
    stops("{{len 1 2}}", "1:2 at <len>: wrong number of args for len: want 1 got 2");
    stops("{{eq}}", "1:2 at <eq>: wrong number of args for eq: want at least 1 got 0");
    stops("{{eq 1}}", "1:2 at <eq 1>: error calling eq: missing argument for comparison");
    stops("{{1 | eq}}", "1:6 at <eq>: error calling eq: missing argument for comparison");
    stops("{{ne 1}}", "1:2 at <ne>: wrong number of args for ne: want 2 got 1");
    stops("{{ne 1 2 3}}", "1:2 at <ne>: wrong number of args for ne: want 2 got 3");
    stops("{{1 | ne}}", "1:6 at <ne>: wrong number of args for ne: want 2 got 1");
    gives("{{1 | lt 2}}", "false");
    stops("{{and}}", "1:2 at <and>: wrong number of args for and: want at least 1 got 0");
    stops("{{or}}", "1:2 at <or>: wrong number of args for or: want at least 1 got 0");
    gives("{{1 | and}}", "1");
    gives("{{0 | and 1}}", "0");
    gives("{{0 | or}}", "0");
    gives("{{1 | or 0}}", "1");
    gives("{{1 | and 0}}", "0");
    stops("{{index}}", "1:2 at <index>: wrong number of args for index: want at least 1 got 0");
    gives("{{index .l}}", "[1 two <nil>]");
    stops("{{slice}}", "1:2 at <slice>: wrong number of args for slice: want at least 1 got 0");
    gives("{{slice .s}}", "hello");
    gives("{{js}}", "");
    gives("{{urlquery}}", "");
    stops("{{call}}", "1:2 at <call>: wrong number of args for call: want at least 1 got 0");
}

#[test]
fn fields_of_every_kind_of_value() {
    stops("{{.s.x}}", "1:4 at <.s.x>: can't evaluate field x in type interface {}");
    stops("{{.n.x}}", "1:4 at <.n.x>: nil pointer evaluating interface {}.x");
    stops("{{.i.x}}", "1:4 at <.i.x>: can't evaluate field x in type interface {}");
    stops("{{.u.x}}", "1:4 at <.u.x>: can't evaluate field x in type interface {}");
    stops("{{.f.x}}", "1:4 at <.f.x>: can't evaluate field x in type interface {}");
    stops("{{.t.x}}", "1:4 at <.t.x>: can't evaluate field x in type interface {}");
    stops("{{.l.x}}", "1:4 at <.l.x>: can't evaluate field x in type interface {}");
    stops("{{.strs.x}}", "1:7 at <.strs.x>: can't evaluate field x in type interface {}");
    stops("{{.bytes.x}}", "1:8 at <.bytes.x>: can't evaluate field x in type interface {}");
    gives("{{.missing}}", "<no value>");
    gives("{{.missing.x}}", "<no value>");
    gives("{{.missing.x.y}}", "<no value>");
    gives("{{.mss.a}}", "A");
    gives("{{.mss.zz}}", "<no value>");
    gives("{{.mss.zz.y}}", "<no value>");
    stops("{{.mss.a.y}}", "1:6 at <.mss.a.y>: can't evaluate field y in type string");
    gives("{{.m.zz}}", "<no value>");
    gives("{{.m.zz.y}}", "<no value>");
    stops("{{.m.a.y}}", "1:4 at <.m.a.y>: can't evaluate field y in type interface {}");
    gives("{{.m.b.zz}}", "<no value>");
    stops("{{with .mss.a}}{{.x}}{{end}}", "1:17 at <.x>: can't evaluate field x in type string");
    gives("{{with .n}}{{else}}{{.n}}{{end}}", "<no value>");
    stops("{{range .l}}{{.x}}{{end}}", "1:14 at <.x>: can't evaluate field x in type interface {}");
    stops("{{range .strs}}{{.x}}{{end}}", "1:17 at <.x>: can't evaluate field x in type string");
    stops(
        "{{with $x := .l}}{{$x.y}}{{end}}",
        "1:21 at <$x.y>: can't evaluate field y in type []interface {}",
    );
    stops("{{range .m}}{{.c}}{{end}}", "1:14 at <.c>: can't evaluate field c in type interface {}");
}

#[test]
fn and_or_not() {
    refuses("{{and 1 0 nope}}", r#"1: function "nope" not defined"#);
    gives("{{and 1 0 2}}", "0");
    gives("{{and 1 2 3}}", "3");
    gives("{{and .n}}", "<no value>");
    gives("{{and .e 1}}", "");
    gives("{{or .e 1 .zz.y}}", "1");
    gives("{{or .e .z .n}}", "<no value>");
    gives("{{or 0 `` nil}}", "<no value>");
    gives("{{or .s .n.x}}", "hello");
    gives("{{and .z .n.x}}", "0");
    stops("{{and 1 .n.x}}", "1:10 at <.n.x>: nil pointer evaluating interface {}.x");
    stops("{{or 0 .n.x}}", "1:9 at <.n.x>: nil pointer evaluating interface {}.x");
    gives("{{not .s}}", "false");
    gives("{{not .e}}", "true");
    gives("{{not nil}}", "true");
    gives("{{not .missing}}", "true");
    gives("{{not 0.0}}", "true");
    gives("{{not 0i}}", "true");
    gives("{{not 1i}}", "false");
    gives("{{not .m}}", "false");
    gives("{{not (slice .strs 3)}}", "true");
    gives("{{not .bytes}}", "false");
    gives("{{not 'a'}}", "false");
    gives("{{not -1}}", "false");
    gives("{{not 1.5}}", "false");
    gives("{{not .u}}", "false");
    gives("{{not 1+0i}}", "false");
    gives("{{not true}}", "false");
    gives("{{not false}}", "true");
    gives("{{if 0}}a{{else}}b{{end}}", "b");
    gives("{{if 1i}}a{{end}}", "a");
    gives("{{if .bytes}}a{{end}}", "a");
    gives("{{if (slice .bytes 5)}}a{{else}}b{{end}}", "b");
    gives("{{if .mss}}a{{end}}", "a");
    gives("{{if .mss.b}}a{{else}}b{{end}}", "b");
}

#[test]
fn indexes_and_slices() {
    gives("{{index .l 0}}", "1");
    gives("{{index .l 2}}", "<no value>");
    stops("{{index .l 3}}", "1:2 at <index .l 3>: error calling index: reflect: slice index out of range");
    stops("{{index .l 4}}", "1:2 at <index .l 4>: error calling index: index out of range: 4");
    stops("{{index .l -1}}", "1:2 at <index .l -1>: error calling index: index out of range: -1");
    stops(
        "{{index .l `a`}}",
        "1:2 at <index .l `a`>: error calling index: cannot index slice/array with type string",
    );
    stops(
        "{{index .l nil}}",
        "1:2 at <index .l nil>: error calling index: cannot index slice/array with nil",
    );
    stops("{{index .l .n}}", "1:2 at <index .l .n>: error calling index: cannot index slice/array with nil");
    stops("{{index .l .u}}", "1:2 at <index .l .u>: error calling index: index out of range: 200");
    gives("{{index .l .z}}", "1");
    stops(
        "{{index .l 1.0}}",
        "1:2 at <index .l 1.0>: error calling index: cannot index slice/array with type float64",
    );
    stops(
        "{{index .l true}}",
        "1:2 at <index .l true>: error calling index: cannot index slice/array with type bool",
    );
    gives("{{index .s 0}}", "104");
    stops("{{index .s 5}}", "1:2 at <index .s 5>: error calling index: reflect: string index out of range");
    stops("{{index .s 6}}", "1:2 at <index .s 6>: error calling index: index out of range: 6");
    gives("{{index .bytes 1}}", "101");
    stops(
        "{{index .bytes 5}}",
        "1:2 at <index .bytes 5>: error calling index: reflect: slice index out of range",
    );
    gives("{{index .strs 2}}", "r");
    stops(
        "{{index .strs 3}}",
        "1:2 at <index .strs 3>: error calling index: reflect: slice index out of range",
    );
    gives("{{index .m `a`}}", "1");
    gives("{{index .m `zz`}}", "<no value>");
    stops("{{index .m 1}}", "1:2 at <index .m 1>: error calling index: value has type int; should be string");
    stops(
        "{{index .m nil}}",
        "1:2 at <index .m nil>: error calling index: value is nil; should be of type string",
    );
    stops(
        "{{index .m .n}}",
        "1:2 at <index .m .n>: error calling index: value is nil; should be of type string",
    );
    gives("{{index .m `b` `c`}}", "deep");
    gives("{{index .m `b` `c` 0}}", "100");
    stops(
        "{{index .m `b` `c` `d`}}",
        "1:2 at <index .m `b` `c` `d`>: error calling index: cannot index slice/array with type string",
    );
    stops("{{index .m `zz` `y`}}", "1:2 at <index .m `zz` `y`>: error calling index: index of nil pointer");
    gives("{{index .mss `a`}}", "A");
    gives("{{index .mss `zz`}}", "");
    stops(
        "{{index .mss 1}}",
        "1:2 at <index .mss 1>: error calling index: value has type int; should be string",
    );
    stops("{{index .n 1}}", "1:2 at <index .n 1>: error calling index: index of untyped nil");
    stops("{{index nil 1}}", "1:2 at <index nil 1>: error calling index: index of untyped nil");
    stops("{{index .i 1}}", "1:2 at <index .i 1>: error calling index: can't index item of type int");
    stops("{{index 1 1}}", "1:2 at <index 1 1>: error calling index: can't index item of type int");
    stops("{{index .t 1}}", "1:2 at <index .t 1>: error calling index: can't index item of type bool");
    stops("{{index 1.5 1}}", "1:2 at <index 1.5 1>: error calling index: can't index item of type float64");
    stops("{{index .l 2 1}}", "1:2 at <index .l 2 1>: error calling index: index of nil pointer");
    stops("{{index .missing 1}}", "1:2 at <index .missing 1>: error calling index: index of untyped nil");
    gives("{{printf `%T` (index .s 0)}}", "uint8");
    gives("{{printf `%T` (index .ints 0)}}", "int");
    gives("{{range .ints}}{{index $.strs (len (slice $.strs .))}}{{end}}", "prq");
    gives("{{slice .s}}", "hello");
    gives("{{slice .s 1}}", "ello");
    gives("{{slice .s 1 3}}", "el");
    gives("{{slice .s 5}}", "");
    stops("{{slice .s 6}}", "1:2 at <slice .s 6>: error calling slice: index out of range: 6");
    gives("{{slice .s 0 5}}", "hello");
    stops("{{slice .s 0 6}}", "1:2 at <slice .s 0 6>: error calling slice: index out of range: 6");
    stops("{{slice .s 3 2}}", "1:2 at <slice .s 3 2>: error calling slice: invalid slice index: 3 > 2");
    stops(
        "{{slice .s 1 2 3}}",
        "1:2 at <slice .s 1 2 3>: error calling slice: cannot 3-index slice a string",
    );
    stops(
        "{{slice .s 1 2 3 4}}",
        "1:2 at <slice .s 1 2 3 4>: error calling slice: too many slice indexes: 4",
    );
    stops("{{slice .s -1}}", "1:2 at <slice .s -1>: error calling slice: index out of range: -1");
    stops(
        "{{slice .s `a`}}",
        "1:2 at <slice .s `a`>: error calling slice: cannot index slice/array with type string",
    );
    stops(
        "{{slice .s nil}}",
        "1:2 at <slice .s nil>: error calling slice: cannot index slice/array with nil",
    );
    stops(
        "{{slice .s .n}}",
        "1:2 at <slice .s .n>: error calling slice: cannot index slice/array with type interface {}",
    );
    stops(
        "{{slice .s .u}}",
        "1:2 at <slice .s .u>: error calling slice: cannot index slice/array with type interface {}",
    );
    gives("{{slice .strs 1}}", "[q r]");
    gives("{{slice .strs 1 2}}", "[q]");
    gives("{{slice .strs 1 2 3}}", "[q]");
    stops(
        "{{slice .strs 0 2 1}}",
        "1:2 at <slice .strs 0 2 1>: error calling slice: invalid slice index: 2 > 1",
    );
    stops(
        "{{slice .strs 2 1 3}}",
        "1:2 at <slice .strs 2 1 3>: error calling slice: invalid slice index: 2 > 1",
    );
    gives("{{slice .strs 0 1 1}}", "[p]");
    stops("{{slice .strs 1 2 4}}", "1:2 at <slice .strs 1 2 4>: error calling slice: index out of range: 4");
    stops(
        "{{slice .strs 0 1 2 3}}",
        "1:2 at <slice .strs 0 1 2 3>: error calling slice: too many slice indexes: 4",
    );
    gives("{{slice .strs 3}}", "[]");
    stops("{{slice .strs 4}}", "1:2 at <slice .strs 4>: error calling slice: index out of range: 4");
    stops("{{slice .strs 2 1}}", "1:2 at <slice .strs 2 1>: error calling slice: invalid slice index: 2 > 1");
    gives("{{slice .bytes 1 3}}", "[101 108]");
    gives("{{slice .bytes 1 2 3}}", "[101]");
    gives("{{slice .l 0 2}}", "[1 two]");
    gives("{{slice .l 2 2}}", "[]");
    stops("{{slice .i 1}}", "1:2 at <slice .i 1>: error calling slice: can't slice item of type int");
    stops(
        "{{slice .m 1}}",
        "1:2 at <slice .m 1>: error calling slice: can't slice item of type map[string]interface {}",
    );
    stops("{{slice .n 1}}", "1:2 at <slice .n 1>: error calling slice: slice of untyped nil");
    stops("{{slice nil}}", "1:2 at <slice nil>: error calling slice: slice of untyped nil");
    stops("{{slice .missing 1}}", "1:2 at <slice .missing 1>: error calling slice: slice of untyped nil");
    stops("{{slice .t}}", "1:2 at <slice .t>: error calling slice: can't slice item of type bool");
    gives("{{printf `%T %T %T` (slice .strs 1) (slice .s 1) (slice .bytes 1)}}", "[]string string []uint8");
    gives("{{len .s}}", "5");
    gives("{{len .e}}", "0");
    gives("{{len .l}}", "3");
    gives("{{len .strs}}", "3");
    gives("{{len .m}}", "2");
    gives("{{len .mss}}", "2");
    gives("{{len .bytes}}", "5");
    stops("{{len .i}}", "1:2 at <len .i>: error calling len: len of type int");
    stops("{{len .n}}", "1:2 at <len .n>: error calling len: len of nil pointer");
    stops(
        "{{len nil}}",
        "1:2 at <len nil>: error calling len: reflect: call of reflect.Value.Type on zero Value",
    );
    stops(
        "{{len .missing}}",
        "1:2 at <len .missing>: error calling len: reflect: call of reflect.Value.Type on zero Value",
    );
    stops("{{len 1}}", "1:2 at <len 1>: error calling len: len of type int");
    gives("{{len `\u{e9}`}}", "2");
}

#[test]
fn text_that_is_escaped() {
    gives(r#"{{html `<a href="x">'&amp;'</a>`}}"#, "&lt;a href=&#34;x&#34;&gt;&#39;&amp;amp;&#39;&lt;/a&gt;");
    gives(r#"{{html "a\x00b"}}"#, "a\u{fffd}b");
    gives("{{html `plain`}}", "plain");
    gives("{{html 1 2 `a` nil}}", "1 2a&lt;no value&gt;");
    gives("{{html .n}}", "&lt;no value&gt;");
    gives("{{html .m}}", "map[a:1 b:map[c:deep]]");
    gives("{{html .l}}", "[1 two &lt;nil&gt;]");
    gives("{{js `<a>'\"\\=&\n\r\t`}}", r#"\u003Ca\u003E\'\"\\\u003D\u0026\u000A\u0009"#);
    gives(r#"{{js "a\u00e9\u2028\u200b\U0001F600\x7f\x1f "}}"#, "a\u{e9}\\u2028\\u200B\u{1f600}\x7f\\u001F ");
    gives("{{js 1 2}}", "1 2");
    gives("{{js `plain`}}", "plain");
    gives("{{js .n}}", r#"\u003Cno value\u003E"#);
    gives(r#"{{js "\U000e0001"}}"#, r#"\uE0001"#);
    gives("{{urlquery `a b&c=d/e?f+g%h-_.~`}}", "a+b%26c%3Dd%2Fe%3Ff%2Bg%25h-_.~");
    gives(r#"{{urlquery "é\n"}}"#, "%C3%A9%0A");
    gives("{{urlquery `AZaz09`}}", "AZaz09");
    gives("{{urlquery 1 2}}", "1+2");
    gives("{{urlquery .n}}", "%3Cno+value%3E");
    gives("{{print .n}}", "<nil>");
    gives("{{print nil}}", "<nil>");
    gives("{{println 1 `a` 2}}", "1 a 2\n");
    gives("{{println}}", "\n");
    gives("{{print `a` `b`}}", "ab");
    gives("{{print 1 `a` 2 3}}", "1a2 3");
    gives("{{print .n .n}}", "<nil> <nil>");
}

#[test]
fn equal_to_any() {
    gives("{{eq 1 2 3 1}}", "true");
    gives("{{eq 1 2 3}}", "false");
    stops(
        "{{eq 1 `a` 1}}",
        "1:2 at <eq 1 `a` 1>: error calling eq: incompatible types for comparison: int and string",
    );
    gives("{{eq 1 1 `a`}}", "true");
    gives("{{eq .missing nil}}", "true");
    gives("{{eq nil nil 1}}", "true");
    gives("{{eq .l nil}}", "false");
    gives("{{eq nil .m}}", "false");
    stops(
        "{{eq .strs .ints}}",
        "1:2 at <eq .strs .ints>: error calling eq: non-comparable type [%!s(int=3) %!s(int=1) %!s(int=2)]: []int",
    );
    stops(
        "{{eq .mss .m}}",
        "1:2 at <eq .mss .m>: error calling eq: non-comparable type map[a:%!s(int=1) b:map[c:deep]]: map[string]interface {}",
    );
    gives("{{1 | eq 2 1}}", "false");
    gives("{{1 | ne 2}}", "true");
}
/// Two operands that have an order, and the results of `eq`, `ne`, `lt`, `le`, `gt` and `ge`.
const ORDERED: &[(&str, [bool; 6])] = &[
    ("1 2", [false, true, true, true, false, false]),
    ("2 1", [false, true, false, false, true, true]),
    ("2 2", [true, false, false, true, false, true]),
    ("`a` `b`", [false, true, true, true, false, false]),
    ("`b` `a`", [false, true, false, false, true, true]),
    ("`b` `b`", [true, false, false, true, false, true]),
    ("1.5 2.5", [false, true, true, true, false, false]),
    ("2.5 1.5", [false, true, false, false, true, true]),
    ("1.5 1.5", [true, false, false, true, false, true]),
    (".i .u", [false, true, true, true, false, false]),
    (".u .i", [false, true, false, false, true, true]),
    ("-1 .u", [false, true, true, true, false, false]),
    (".u -1", [false, true, false, false, true, true]),
    (".u .u", [true, false, false, true, false, true]),
];

/// Two operands without an order, the result of `eq`, and the error of the ordering functions.
const UNORDERED: &[(&str, &str, &str)] = &[
    ("true false", "false", "invalid type for comparison"),
    ("true true", "true", "invalid type for comparison"),
    (
        "1 1.5",
        "incompatible types for comparison: int and float64",
        "incompatible types for comparison: int and float64",
    ),
    (
        "`a` 1",
        "incompatible types for comparison: string and int",
        "incompatible types for comparison: string and int",
    ),
    ("nil 1", "false", "invalid type for comparison"),
    ("1 nil", "false", "invalid type for comparison"),
    ("nil nil", "true", "invalid type for comparison"),
    (".l .l", "non-comparable type [%!s(int=1) two <nil>]: []interface {}", "invalid type for comparison"),
    (
        ".m .m",
        "non-comparable type map[a:%!s(int=1) b:map[c:deep]]: map[string]interface {}",
        "invalid type for comparison",
    ),
    (
        ".m .l",
        "non-comparable types map[a:%!s(int=1) b:map[c:deep]]: map[string]interface {}, []interface {}: [1 two <nil>]",
        "invalid type for comparison",
    ),
    ("1i 1i", "true", "invalid type for comparison"),
    ("1i 2i", "false", "invalid type for comparison"),
    (
        "1i 1",
        "incompatible types for comparison: complex128 and int",
        "incompatible types for comparison: complex128 and int",
    ),
    ("1+2i 1+3i", "false", "invalid type for comparison"),
    (".bytes .bytes", "non-comparable type hello: []uint8", "invalid type for comparison"),
    (".n .n", "true", "invalid type for comparison"),
    (".n 1", "false", "invalid type for comparison"),
    (".s .n", "false", "invalid type for comparison"),
    (".z .n", "false", "invalid type for comparison"),
];

/// Returns the result of a function of two operands, or its error message.
fn compared(name: &str, operands: &str) -> String {
    let answer = render(&format!("{{{{{name} {operands}}}}}"));
    answer.unwrap_or_else(|error| match error.split_once(&format!("error calling {name}: ")) {
        Some((_, text)) => text.to_string(),
        None => error,
    })
}

#[test]
fn operands_with_an_order() {
    for (operands, expected) in ORDERED {
        let given = ["eq", "ne", "lt", "le", "gt", "ge"].map(|name| compared(name, operands));
        assert_eq!(given, expected.map(|truth| truth.to_string()), "{operands}");
    }
}

#[test]
fn operands_without_an_order() {
    for (operands, equal, error) in UNORDERED {
        let different = match *equal {
            "true" => "false",
            "false" => "true",
            error => error,
        };
        assert_eq!([compared("eq", operands), compared("ne", operands)], [*equal, different], "{operands}");
        let given = ["lt", "le", "gt", "ge"].map(|name| compared(name, operands));
        assert_eq!(given, [*error; 4], "{operands}");
    }
}
