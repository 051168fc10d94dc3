//! Parsing. Each expectation was recorded from Go.

use super::templates::{gives, refuses, stops};

#[test]
fn control_structures_and_their_ends() {
    refuses("{{else}}", "1: unexpected {{else}}");
    refuses("{{end}}", "1: unexpected {{end}}");
    refuses("{{if 1}}", "1: unexpected EOF");
    refuses("{{if 1}}a{{else}}b{{else}}c{{end}}", "1: expected end; found {{else}}");
    refuses("{{define `x`}}{{else}}{{end}}", "1: unexpected {{else}} in define clause");
    refuses("{{block `x` .}}{{else}}{{end}}", "1: unexpected {{else}} in block clause");
    gives("{{if 1}}a{{else if 0}}b{{else}}c{{end}}", "a");
    gives("{{if 0}}a{{else if 1}}b{{else}}c{{end}}", "b");
    gives("{{if 0}}a{{else if 0}}b{{else}}c{{end}}", "c");
    gives("{{if 0}}a{{else  if 1}}b{{end}}", "b");
    refuses("{{if 0}}a{{else if 1}}b{{end}}{{end}}", "1: unexpected {{end}}");
    gives("{{with 0}}{{else with 1}}{{.}}{{end}}", "1");
    gives("{{with 0}}{{else with 0}}{{.}}{{else}}{{.s}}{{end}}", "hello");
    refuses("{{with 0}}a{{else if 1}}x{{end}}", "1: unexpected <if> in input");
    refuses("{{range 0}}a{{else if 1}}x{{end}}", "1: unexpected <if> in input");
    refuses("{{range 0}}a{{else with 1}}x{{end}}", "1: unexpected <with> in input");
    refuses("{{if 0}}a{{else with 1}}x{{end}}", "1: unexpected <with> in input");
    refuses("{{if 1}}{{end 1}}", r#"1: unexpected "1" in end"#);
    refuses("{{if 1}}{{else 1}}{{end}}", r#"1: unexpected "1" in else"#);
    refuses("{{if 1}}{{else/* c */}}{{end}}", "1: bad character U+002F '/'");
    refuses("{{if 1}}a{{else if}}b{{end}}", "1: missing value for if");
    refuses("{{if 1}}{{with 1}}{{end}}", "1: unexpected EOF");
    refuses("{{range 1}}", "1: unexpected EOF");
    refuses("{{with 1}}", "1: unexpected EOF");
    stops("{{if 1 2}}{{end}}", "1:5 at <1>: can't give argument to non-function 1");
    refuses("{{if}}{{end}}", "1: missing value for if");
    refuses("{{with}}{{end}}", "1: missing value for with");
    refuses("{{range}}{{end}}", "1: missing value for range");
    gives("{{if .s}}a{{end}}b{{if .e}}c{{end}}d", "abd");
    refuses("{{else if 1}}", "1: unexpected {{else}}");
    gives("{{if 0}}{{else}}{{if 1}}x{{end}}{{end}}y", "xy");
    gives("{{if 1}}a{{- else -}} b{{end}}", "a");
    gives("{{if 0}}a{{- else -}} b {{- end}}", "b");
}

#[test]
fn definitions_and_calls() {
    refuses("{{define x}}{{end}}", r#"1: unexpected "x" in define clause"#);
    refuses("{{define `x` 1}}{{end}}", r#"1: unexpected "1" in define clause"#);
    refuses("{{define}}{{end}}", r#"1: unexpected "}}" in define clause"#);
    refuses("{{define `x`}}", "1: unexpected EOF");
    refuses("{{define `x`}}{{end}}{{end}}", "1: unexpected {{end}}");
    refuses("{{if 1}}{{define `x`}}{{end}}{{end}}", "1: unexpected <define> in command");
    refuses("{{define `x`}}{{define `y`}}{{end}}{{end}}", "1: unexpected <define> in command");
    gives("{{define `x`}}a{{end}}{{template `x`}}", "a");
    gives(r#"{{define "x"}}{{.}}{{end}}{{template "x" 1 | print 2}}"#, "2 1");
    stops("{{define `x`}}a{{end}}{{template `x` 1 2}}", "1:37 at <1>: can't give argument to non-function 1");
    refuses("{{template `x` nope}}", r#"1: function "nope" not defined"#);
    refuses(r#"{{template "\q"}}"#, "1: invalid syntax");
    refuses(r#"{{define "\q"}}{{end}}"#, "1: invalid syntax");
    refuses("{{block `x`}}{{end}}", "1: missing value for block clause");
    gives("{{block `x` 1}}[{{.}}]{{end}}", "[1]");
    gives("{{block `x` 1}}a{{end}}{{template `x`}}", "aa");
    refuses("{{block `x` 1}}a", "1: unexpected EOF");
    refuses("{{block `x` nope}}{{end}}", r#"1: function "nope" not defined"#);
    gives("{{block `x` 1}}{{block `y` 2}}{{.}}{{end}}{{.}}{{end}}", "21");
    refuses(
        "{{define `x`}}a{{end}}{{block `x` 1}}b{{end}}",
        r#"1: template: multiple definition of template "x""#,
    );
    gives("{{define `x`}}{{end}}{{block `x` 1}}b{{end}}", "b");
    gives("{{define `x`}} \n{{end}}{{define `x`}}b{{end}}{{template `x`}}", "b");
    gives("{{define `x`}}b{{end}}{{define `x`}} {{/* c */}} {{end}}{{template `x`}}", "b");
    gives("{{define `x`}}{{end}}[{{template `x`}}]", "[]");
    refuses("{{define `main`}}a{{end}}b", r#"1: template: multiple definition of template "main""#);
    gives("{{define `main`}}a{{end}}", "a");
    gives("{{define `x`}}\u{a0}{{end}}{{define `x`}}b{{end}}{{template `x`}}", "b");
    gives("{{define ``}}e{{end}}{{template ``}}", "e");
    gives("{{define `x`}}{{$}}{{end}}{{template `x` .i}}", "7");
    gives("{{define `x`}}{{$.s}}{{.s}}{{end}}{{with .m}}{{template `x` $}}{{end}}", "hellohello");
    refuses("{{range 2}}{{define `x`}}{{break}}{{end}}{{end}}", "1: unexpected <define> in command");
    refuses("{{range 2}}{{block `x` .}}{{break}}{{end}}{{end}}", "1: {{break}} outside {{range}}");
}

#[test]
fn loops_and_their_jumps() {
    refuses("{{break 1}}", r#"1: unexpected "1" in {{break}}"#);
    refuses("{{continue}}", "1: {{continue}} outside {{range}}");
    refuses("{{range 1}}{{break 1}}{{end}}", r#"1: unexpected "1" in {{break}}"#);
    refuses("{{range 1}}{{continue x}}{{end}}", r#"1: unexpected "x" in {{continue}}"#);
    refuses("{{range 1}}{{end}}{{break}}", "1: {{break}} outside {{range}}");
    refuses("{{range 1}}{{end}}{{continue}}", "1: {{continue}} outside {{range}}");
    gives("{{range 3}}{{if 1}}{{break}}{{end}}{{.}}{{end}}x", "x");
    refuses("{{range 0}}{{else}}{{break}}{{end}}", "1: {{break}} outside {{range}}");
    refuses("{{range 3}}a{{else}}{{continue}}{{end}}", "1: {{continue}} outside {{range}}");
    gives("{{range 2}}{{with 1}}{{continue}}{{end}}a{{end}}b", "b");
    gives("{{range 2}}{{range 2}}{{break}}{{end}}a{{end}}", "aa");
    gives("{{range 2}}{{range 2}}b{{continue}}c{{end}}a{{end}}", "bbabba");
    gives("{{range 2}}{{range 0}}{{else}}{{continue}}{{end}}a{{end}}b", "b");
    gives("{{range 2}}{{range 0}}{{else}}{{break}}{{end}}a{{end}}b", "aab");
    gives("{{range 3}}{{.}}{{if eq . 1}}{{break}}{{else}}-{{end}}{{end}}", "0-1");
    gives("{{range 3}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{end}}", "02");
    gives("{{range .strs}}{{.}}{{end}}", "pqr");
    gives("{{range $e := .strs}}{{$e}}{{.}}{{end}}", "ppqqrr");
    gives("{{range $i, $e := .strs}}{{$i}}{{$e}}{{end}}", "0p1q2r");
    gives("{{range .mss}}[{{.}}]{{end}}", "[A][]");
    gives("{{range $k, $v := .mss}}{{$k}}={{$v}};{{end}}", "a=A;b=;");
    gives("{{range $v := .mss}}{{$v}};{{end}}", "A;;");
    gives("{{range .bytes}}{{.}} {{end}}", "104 101 108 108 111 ");
    gives("{{range $i, $b := .bytes}}{{$i}}{{$b}} {{end}}", "0104 1101 2108 3108 4111 ");
    gives("{{range .i}}{{.}}{{end}}", "0123456");
    gives("{{range $i := 3}}{{$i}}{{.}}{{end}}", "001122");
    stops(
        "{{range $i, $j := 3}}{{$i}}{{$j}}{{end}}",
        "1:18 at <3>: can't use 3 to iterate over more than one variable",
    );
    stops(
        "{{range $i, $j := .u}}{{end}}",
        "1:18 at <.u>: can't use 200 to iterate over more than one variable",
    );
    gives("{{range $i := .u}}{{if eq $i 3}}{{printf `%T` $i}}{{break}}{{end}}{{end}}", "uint8");
    gives("{{range -1}}a{{else}}b{{end}}", "b");
    gives("{{range 0}}a{{else}}b{{end}}", "b");
    gives("{{range .n}}a{{else}}b{{end}}", "b");
    gives("{{range .missing}}a{{else}}b{{end}}", "b");
    gives("{{range .l}}{{printf `%T` .}} {{end}}", "int string <nil> ");
    stops("{{range .s}}{{end}}", "1:8 at <.s>: range can't iterate over hello");
    stops("{{range .t}}{{end}}", "1:8 at <.t>: range can't iterate over true");
    stops("{{range 1.5}}{{end}}", "1:8 at <1.5>: range can't iterate over 1.5");
    stops("{{range 1i}}{{end}}", "1:8 at <1i>: range can't iterate over (0+1i)");
    stops("{{range nil}}{{end}}", "1:8 at <nil>: nil is not a command");
    gives("{{range .m.b}}{{.}}{{else}}none{{end}}", "deep");
    gives("{{range (slice .strs 3)}}a{{else}}b{{end}}", "b");
    gives("{{range $.strs}}{{$.i}}{{end}}", "777");
    gives("{{range 'a'}}{{break}}{{end}}x", "x");
}

#[test]
fn variables_in_their_scopes() {
    refuses("{{$x}}", r#"1: undefined variable "$x""#);
    refuses("{{$x := 1}}{{$y}}", r#"1: undefined variable "$y""#);
    refuses("{{$x, $y := 1}}", "1: too many declarations in command");
    refuses("{{$x, $y = 1}}", "1: too many declarations in command");
    refuses("{{if $x, $y := 1}}{{end}}", "1: too many declarations in if");
    refuses("{{range $x, $y, $z := .l}}{{end}}", "1: too many declarations in range");
    refuses("{{range $x, 1 := .l}}{{end}}", "1: range can only initialize variables");
    refuses("{{range $x, := .l}}{{end}}", "1: range can only initialize variables");
    refuses("{{range $x,}}{{end}}", "1: missing value for range");
    refuses("{{range $x, $y}}{{end}}", r#"1: undefined variable "$y""#);
    refuses("{{range $x $y := .l}}{{end}}", r#"1: undefined variable "$x""#);
    refuses("{{range $x, ($y := .l)}}{{end}}", "1: range can only initialize variables");
    refuses("{{range ($x,)}}{{end}}", "1: too many declarations in parenthesized pipeline");
    refuses("{{$x :=}}", "1: missing value for command");
    stops("{{$x := 1 2}}", "1:8 at <1>: can't give argument to non-function 1");
    refuses("{{$x = }}", "1: missing value for command");
    refuses("{{$x}} {{$x := 1}}", r#"1: undefined variable "$x""#);
    gives("{{if $x := 1}}{{$x}}{{end}}", "1");
    refuses("{{if $x := 1}}{{end}}{{$x}}", r#"1: undefined variable "$x""#);
    gives("{{with $x := 1}}{{else}}{{$x}}{{end}}", "");
    gives("{{with $x := 0}}{{else}}{{$x}}{{end}}", "0");
    gives("{{range $i, $e := .l}}{{else}}{{$i}}{{end}}", "");
    gives("{{range $i, $e := .missing}}{{else}}{{$i}}{{end}}", "<no value>");
    refuses("{{range $e := .strs}}{{end}}{{$e}}", r#"1: undefined variable "$e""#);
    refuses("{{$x:=1}}{{$x=2}}{{$x}}", "1: bad character U+003D '='");
    gives("{{ $x := 1 | print 2 }}{{$x}}", "2 1");
    gives("{{print ($x := 5)}}{{$x}}", "55");
    gives("{{$ := 1}}{{$}}", "1");
    refuses("{{$x := 1}}{{define `a`}}{{$x}}{{end}}", r#"1: undefined variable "$x""#);
    stops("{{range $x = .strs}}{{end}}", "1:13 at <.strs>: undefined variable: $x");
    gives("{{$a := 0}}{{$b := 0}}{{range $a, $b = .strs}}{{end}}{{$a}}{{$b}}", "2r");
    gives("{{$a := 0}}{{range $a = .strs}}{{$a}}{{end}}{{$a}}", "pqrr");
    gives("{{$x := 1}}{{$x := 2}}{{$x}}", "2");
    gives("{{$x := 1}}{{if 1}}{{$x := 2}}{{$x = 3}}{{$x}}{{end}}{{$x}}", "31");
    gives("{{$x := 1}}{{$x := $x}}{{$x}}", "1");
    gives("{{$x := 1}}{{with $x := print $x 2}}{{$x}}{{end}}{{$x}}", "1 21");
    stops("{{if 0}}{{$x := 1}}{{else}}{{$x}}{{end}}", "1:29 at <$x>: undefined variable: $x");
    gives("{{$x := 1}}{{if 0}}{{$x := 2}}{{else}}{{$x}}{{end}}", "1");
    gives("{{$x := 7}}{{if 1}}{{$y := 8}}{{$x}}{{$y}}{{end}}{{$z := 9}}{{$x}}{{$z}}", "7879");
    stops("{{$x = 1}}{{$x}}", "1:7 at <1>: undefined variable: $x");
    gives("{{$x := .m}}{{$x.a}}{{$x.b.c}}", "1deep");
    stops("{{$x := .m}}{{$x .a}}", "1:14 at <$x>: can't give argument to non-function $x");
    stops("{{$x := 1}}{{$x 2}}", "1:13 at <$x>: can't give argument to non-function $x");
    stops("{{$x := 1}}{{2 | $x}}", "1:17 at <$x>: can't give argument to non-function $x");
    stops("{{$x := .s}}{{$x.y}}", "1:16 at <$x.y>: can't evaluate field y in type string");
    gives("{{$x := .mss}}{{$x.a}}{{$x.zz}}", "A<no value>");
    stops("{{$x := .m}}{{$x.a.b}}", "1:16 at <$x.a.b>: can't evaluate field b in type interface {}");
    gives(
        "{{define `a`}}{{$x := 3}}{{$y := .}}{{$y.s}}{{$x}}{{end}}{{$q := 5}}{{template `a` .}}{{$q}}",
        "hello35",
    );
    gives(
        "{{define `a`}}{{$x := .}}{{$y := 4}}{{$x.s}}{{$y}}{{$.i}}{{end}}{{$q := 5}}{{$r := 6}}{{template `a` .}}{{$q}}{{$r}}",
        "hello4756",
    );
}

#[test]
fn declarations_that_may_be_skipped() {
    stops("{{and 0 ($x := 1)}}{{$x}}", "1:21 at <$x>: undefined variable: $x");
    gives("{{and 1 ($x := 1)}}{{$x}}", "11");
    stops("{{or 1 ($x := 1)}}{{$x}}", "1:20 at <$x>: undefined variable: $x");
    gives("{{or 0 ($x := 1)}}{{$x}}", "11");
    gives("{{and ($x := 0) 1}}{{$x}}", "00");
    gives("{{or ($x := 1) 0}}{{$x}}", "11");
    gives("{{$x := 0}}{{or 1 ($x := 2)}}{{$x}}", "10");
    gives("{{$x := 0}}{{or 0 ($x := 2)}}{{$x}}", "22");
    gives("{{$x := 0}}{{and 0 ($x = 2)}}{{$x}}", "00");
    gives("{{$x := 0}}{{and 1 ($x = 2)}}{{$x}}", "22");
    stops("{{and 0 (print ($x := 1)).a}}{{$x}}", "1:31 at <$x>: undefined variable: $x");
    stops("{{and 0 (print 1 ($x := 1))}}{{$x}}", "1:31 at <$x>: undefined variable: $x");
    stops("{{and 1 (or 1 ($x := 3))}}{{$x}}", "1:28 at <$x>: undefined variable: $x");
    gives("{{and 1 (or 0 ($x := 3))}}{{$x}}", "33");
    stops("{{and 1 1 ($x := 3) 0 ($y := 4)}}{{$x}}{{$y}}", "1:41 at <$y>: undefined variable: $y");
    gives("{{and 1 ($x := 3) 0 ($y := 4)}}{{$x}}", "03");
    gives("{{eq 1 ($x := 3)}}{{$x}}", "false3");
    gives("{{range .ints}}{{$y := 0}}{{or (eq . 2) ($y := 5)}}{{$y}} {{end}}", "55 55 true0 ");
    gives("{{range .ints}}{{$y := 0}}{{and (eq . 1) ($y := 5)}}{{$y}} {{end}}", "false0 55 false0 ");
    gives("{{range .ints}}{{$y := 0}}{{or (eq . 2) (print ($y := 5))}}{{$y}} {{end}}", "55 55 true0 ");
    stops(
        "{{range .ints}}{{$y := 0}}{{or (eq . 2) (print ($y := 5)).a}}{{$y}} {{end}}",
        "1:54 at <5>: can't evaluate field a in type string",
    );
    gives(
        "{{range .ints}}{{$y := 0}}{{or (eq . 2) (index $.m (print ($y := `b`))).c}}{{$y}} {{end}}",
        "deepb deepb true0 ",
    );
    gives("{{range .ints}}{{$y := 0}}{{or (eq . 2) 0 ($y := 5)}}{{$y}} {{end}}", "55 55 true0 ");
    gives("{{range .ints}}{{$y := 0}}{{or (eq . 2) ($y = 5)}}{{$y}} {{end}}", "55 55 true0 ");
    gives(
        "{{define `a`}}{{range .ints}}{{$y := 0}}{{or (eq . 2) ($y := 5)}}{{$y}} {{end}}{{end}}{{$p := 1}}{{$q := 2}}{{$r := 3}}{{template `a` .}}{{$p}}{{$q}}{{$r}}",
        "55 55 true0 123",
    );
    gives(
        "{{define `a`}}{{$x := 1}}{{or 0 ($x := 2)}}{{$x = 3}}{{$x}}{{end}}{{$p := 1}}{{template `a`}}{{$p}}",
        "231",
    );
    gives("{{$x := 1}}{{if or 0 ($x := 2)}}{{$x = 3}}{{$x}}{{end}}{{$x}}", "31");
    gives("{{$x := 1}}{{or 1 ($x := 2)}}{{$x = 3}}{{$x}}", "13");
    stops("{{and 0 ($x := 1)}}{{$x = 3}}{{$x}}", "1:26 at <3>: undefined variable: $x");
    gives("{{$x := .m}}{{or 1 ($x := 2)}}{{$x.a}}{{$x.b.c}}", "11deep");
}

#[test]
fn commands_and_pipelines() {
    gives("{{1 | print 2}}", "2 1");
    gives("{{1 | print | printf `%s-%s` `a`}}", "a-1");
    refuses("{{1 | 2}}", "1: non executable command in pipeline stage 2");
    refuses("{{1 | .}}", "1: non executable command in pipeline stage 2");
    refuses("{{1 | nil}}", "1: non executable command in pipeline stage 2");
    refuses("{{1 | true}}", "1: non executable command in pipeline stage 2");
    refuses("{{1 | `a`}}", "1: non executable command in pipeline stage 2");
    stops("{{1 | .s}}", "1:6 at <.s>: s is not a method but has arguments");
    stops("{{1 | .m.a}}", "1:8 at <.m.a>: a is not a method but has arguments");
    refuses("{{1 | print | 2}}", "1: non executable command in pipeline stage 3");
    stops("{{1 | (print 2)}}", "1:2 at <1>: can't give argument to non-function print 2");
    stops("{{1 | (.s)}}", "1:2 at <1>: can't give argument to non-function .s");
    stops("{{1 2}}", "1:2 at <1>: can't give argument to non-function 1");
    stops("{{`a` 2}}", "1:2 at <`a`>: can't give argument to non-function `a`");
    stops("{{true 1}}", "1:2 at <true>: can't give argument to non-function true");
    stops("{{. 1}}", "1:2 at <.>: can't give argument to non-function .");
    stops("{{(1) 2}}", "1:2 at <(1) 2>: can't give argument to non-function 1");
    stops("{{.s .i}}", "1:2 at <.s>: s is not a method but has arguments");
    stops("{{.m.b .i}}", "1:4 at <.m.b>: b is not a method but has arguments");
    refuses("{{| print}}", r#"1: unexpected "|" in command"#);
    gives("{{print |}}", "");
    gives("{{1 |}}", "1");
    refuses("{{print | | print}}", r#"1: unexpected "|" in command"#);
    refuses("{{()}}", "1: missing value for parenthesized pipeline");
    refuses("{{(print 1}}", "1: unclosed left paren");
    gives("{{print (1 | print)}}", "1");
    gives("{{(print 1) | print 2}}", "21");
    gives("{{print 1 2 | len}}", "3");
    gives("{{print\t1\n2}}", "1 2");
    gives("{{print 1|print 2|print 3}}", "321");
    gives("{{print print}}", "");
    gives("{{print (print)}}", "");
    stops("{{len | print}}", "1:2 at <len>: wrong number of args for len: want 1 got 0");
    refuses("{{}}", "1: missing value for command");
    refuses("{{ }}", "1: missing value for command");
    refuses("{{(())}}", "1: missing value for parenthesized pipeline");
    gives("{{((1))}}", "1");
    refuses("{{1 | print nope}}", r#"1: function "nope" not defined"#);
    refuses("{{print (nope)}}", r#"1: function "nope" not defined"#);
}

#[test]
fn fields_after_terms() {
    refuses("{{true.x}}", r#"1: unexpected . after term "true""#);
    refuses("{{false.x}}", r#"1: unexpected . after term "false""#);
    refuses("{{`a`.x}}", r#"1: unexpected . after term "`a`""#);
    refuses(r#"{{"b".x.y}}"#, r#"1: unexpected . after term "\"b\"""#);
    refuses("{{1.x}}", r#"1: bad number syntax: "1.x""#);
    refuses("{{1.5.x}}", r#"1: unexpected . after term "1.5""#);
    refuses("{{nil.x}}", r#"1: unexpected . after term "nil""#);
    refuses("{{..x}}", r#"1: unexpected . after term ".""#);
    refuses("{{.x.}}", "1: unexpected <.> in operand");
    stops("{{(1).x}}", "1:3 at <1>: can't evaluate field x in type int");
    gives("{{(.m).a}}", "1");
    gives("{{(.m).b.c}}", "deep");
    gives("{{(.m.b).c}}", "deep");
    gives("{{$.m.a}}", "1");
    gives("{{$.m.b.c}}", "deep");
    stops("{{print.x}}", "1:2 at <print>: can't evaluate field x in type string");
    stops("{{(print).x}}", "1:3 at <print>: can't evaluate field x in type string");
    gives("{{(index .m `b`).c}}", "deep");
    stops("{{.m .b}}", "1:2 at <.m>: m is not a method but has arguments");
    gives("{{print (.m).a (.m).b.c}}", "1deep");
    gives("{{(.n).x}}", "<no value>");
    gives("{{(.missing).x}}", "<no value>");
    stops("{{(nil).x}}", "1:3 at <nil>: nil is not a command");
    stops("{{(.s).x}}", "1:3 at <.s>: can't evaluate field x in type string");
    gives("{{(.m).zz}}", "<no value>");
    gives("{{(.m).zz.y}}", "<no value>");
    stops("{{(.m).b.c.d}}", "1:3 at <.m>: can't evaluate field d in type interface {}");
    stops("{{(.m).a 1}}", "1:3 at <.m>: a is not a method but has arguments");
    refuses("{{'a'.x}}", r#"1: unexpected . after term "'a'""#);
    refuses("{{print true.x}}", r#"1: unexpected . after term "true""#);
}
