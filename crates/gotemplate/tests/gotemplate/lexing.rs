//! Lexing. Each expectation was recorded from Go.

use super::templates::{fails, gives, refuses, stops};

#[test]
fn spaces_go_where_a_marker_stands() {
    gives("a \t\r\n{{- 1 -}} \t\r\n b", "a1b");
    gives("a \x0c{{- 1 -}} \x0c b", "a \x0c1\x0c b");
    gives("  {{- 1}}", "1");
    gives("{{1 -}}  ", "1");
    gives("{{- 1 -}}", "1");
    gives("a{{- 1 -}}b", "a1b");
    gives("a  {{1}}  b", "a  1  b");
    gives("a {{-1}} b", "a -1 b");
    gives("a {{-\t1\t-}} b", "a1b");
    gives("a {{-\r\n1\r\n-}} b", "a1b");
    gives("a {{1 -}}\n{{- 2}} b", "a 12 b");
    gives("{{1}}\n{{- 2 -}}\n{{3}}", "123");
    gives("{{ 1  -}} b", "1b");
    gives("{{\n1\n\n-}} b", "1b");
    gives("{{print 1 -}} {{/* c */ -}} x", "1x");
    refuses("{{1-}}", r#"1: bad number syntax: "1-""#);
    refuses("{{1 - }}", r#"1: illegal number syntax: "-""#);
    refuses("{{ - }}", r#"1: illegal number syntax: "-""#);
    refuses("{{-}}", r#"1: illegal number syntax: "-""#);
    refuses("{{- }}", "1: missing value for command");
    refuses("{{1 -}", r#"1: illegal number syntax: "-""#);
    refuses("{{1 -}x}}", r#"1: illegal number syntax: "-""#);
}

#[test]
fn comments() {
    gives("a{{/* b */}}c", "ac");
    gives("a {{- /* b */ -}} c", "ac");
    gives("a {{/* b */ -}} c", "a c");
    gives("a {{- /* b */}} c", "a c");
    gives("a{{/**/}}c", "ac");
    gives("a{{/***/}}c", "ac");
    refuses("a{{/*\n\n*/}}{{nope}}", r#"3: function "nope" not defined"#);
    gives("{{/* {{ }} */}}x", "x");
    refuses("a{{/*", "1: unclosed comment");
    refuses("a{{/* b", "1: unclosed comment");
    refuses("a{{/* b */", "1: comment ends before closing delimiter");
    refuses("a{{/* b */ }}", "1: comment ends before closing delimiter");
    refuses("a{{/* b */x}}", "1: comment ends before closing delimiter");
    refuses("a{{/* b */ -}", "1: comment ends before closing delimiter");
    refuses("a{{ /* b */}}", r#"1: unexpected "/" in command"#);
    refuses("a{{-/* b */}}", r#"1: illegal number syntax: "-""#);
    refuses("{{- /* b\n*/ -}}\n\n{{nope}}", r#"4: function "nope" not defined"#);
    gives("{{/* a */}}{{/* b */}}", "");
    refuses("{{1 /* b */}}", r#"1: unexpected "/" in operand"#);
    refuses("\n{{/* b", "2: unclosed comment");
}

#[test]
fn lines_are_counted_through_everything() {
    refuses("\n\n{{nope}}", r#"3: function "nope" not defined"#);
    refuses("{{1}}\n{{- 2 -}}\n\n{{nope}}", r#"4: function "nope" not defined"#);
    refuses("{{\n\n1\n}}{{nope}}", r#"4: function "nope" not defined"#);
    refuses("{{`\n\n`}}{{nope}}", r#"3: function "nope" not defined"#);
    refuses("{{1 -}}\n\n{{nope}}", r#"3: function "nope" not defined"#);
    refuses("\n {{- nope}}", r#"2: function "nope" not defined"#);
    refuses("{{print\n1\nnope}}", r#"3: function "nope" not defined"#);
    refuses("a\nb\n{{nope}}\n", r#"3: function "nope" not defined"#);
    refuses("{{if 1}}\n\n{{nope}}{{end}}", r#"3: function "nope" not defined"#);
    refuses("{{define `a`}}\n{{nope}}{{end}}", r#"2: function "nope" not defined"#);
    refuses("\n{{1\n", "3: unclosed action started at main:2");
    refuses("\n{{`a\n", "2: unterminated raw quoted string");
    refuses("\n{{(1\n}}", "3: unclosed left paren in action started at main:2");
    refuses("{{\n\"a", "2: unterminated quoted string in action started at main:1");
    refuses("{{1\n#\u{e9}\x01}}", "2: unexpected \"#\" in operand");
    refuses("{{\n\x01}}", "2: unrecognized character in action: U+0001 in action started at main:1");
    stops("\n\n{{.s.x}}", "3:4 at <.s.x>: can't evaluate field x in type interface {}");
    stops("a\n  {{.s.x}}", "2:6 at <.s.x>: can't evaluate field x in type interface {}");
    stops("\u{e9}{{.s.x}}", "1:6 at <.s.x>: can't evaluate field x in type interface {}");
    stops("{{1}}{{\n  .s.x}}", "2:4 at <.s.x>: can't evaluate field x in type interface {}");
    fails(
        "{{template `a` .}}{{define `a`}}\n\n   {{.s.x}}{{end}}",
        r#"template: main:3:7: executing "a" at <.s.x>: can't evaluate field x in type interface {}"#,
    );
}

#[test]
fn actions_that_do_not_close() {
    refuses("{{ 1", "1: unclosed action");
    refuses("{{ (1 }}", "1: unclosed left paren");
    refuses("{{ 1) }}", "1: unexpected right paren");
    refuses("{{ ((1) }}", "1: unclosed left paren");
    refuses("{{ () }}", "1: missing value for parenthesized pipeline");
    refuses("{{ (1)) }}", "1: unexpected right paren");
    refuses("{{ \"a\n\" }}", "1: unterminated quoted string");
    refuses("{{ 'a }}", "1: unterminated character constant");
    refuses("{{ 'a", "1: unterminated character constant");
    refuses("{{ `a }}", "1: unterminated raw quoted string");
    refuses(r#"{{ "a\"#, "1: unterminated quoted string");
    refuses(r#"{{ "a\""#, "1: unterminated quoted string");
    refuses("{{ \"a\\\n\"}}", "1: unterminated quoted string");
    gives(r#"{{ "a\"b" }}"#, r#"a"b"#);
    refuses("{{ : }}", "1: expected :=");
    refuses("{{ $x : 1 }}", r#"1: undefined variable "$x""#);
    refuses("{{ := }}", r#"1: unexpected ":=" in command"#);
    refuses("{{ = }}", r#"1: unexpected "=" in command"#);
    refuses("{{ $x :", r#"1: undefined variable "$x""#);
    refuses("{{ 1 }", r#"1: unexpected "}" in operand"#);
    refuses("{{ 1 } }}", r#"1: unexpected "}" in operand"#);
    gives("{", "{");
    gives("}}", "}}");
    gives("a } b }} c", "a } b }} c");
    refuses("{{ '\n' }}", "1: unterminated character constant");
    refuses("{{ ) }}", "1: unexpected right paren");
}

#[test]
fn characters_that_mean_nothing() {
    refuses("{{ # }}", "1: unexpected \"#\" in command");
    refuses("{{ print # }}", "1: unexpected \"#\" in operand");
    refuses("{{ \x01 }}", "1: unrecognized character in action: U+0001");
    refuses("{{ \x7f }}", "1: unrecognized character in action: U+007F");
    refuses("{{ \u{e9} }}", r#"1: function "é" not defined"#);
    refuses("{{ \u{a0} }}", "1: unrecognized character in action: U+00A0");
    refuses("{{ \u{4e16} }}", r#"1: function "世" not defined"#);
    refuses("{{ ~ }}", r#"1: unexpected "~" in command"#);
    refuses("{{ 1 ~ }}", r#"1: unexpected "~" in operand"#);
    refuses("{{ print+1 }}", "1: bad character U+002B '+'");
    refuses("{{ $x+1 }}", "1: bad character U+002B '+'");
    refuses("{{ .x+ }}", "1: bad character U+002B '+'");
    refuses("{{ .x\x01 }}", "1: bad character U+0001");
    refuses("{{ .s\u{200b} }}", "1: bad character U+200B");
    refuses("{{ .a, }}", r#"1: unexpected "," in operand"#);
    refuses("{{ print .s,.i }}", r#"1: unexpected "," in operand"#);
    refuses("{{ , }}", r#"1: unexpected "," in command"#);
    refuses("{{ print! }}", "1: bad character U+0021 '!'");
    refuses(r#"{{ .s"a" }}"#, r#"1: bad character U+0022 '"'"#);
    gives("{{ $\u{e9} := 1 }}{{ $\u{e9} }}", "1");
    refuses("{{ _ }}", r#"1: function "_" not defined"#);
    gives("{{ ._ }}", "<no value>");
    gives("{{ $_ := 2 }}{{ $_ }}", "2");
    gives("{{ .\u{e9} }}", "<no value>");
    gives("{{ .a1_b }}", "<no value>");
    refuses("{{ \u{663} }}", "1: function \"\u{663}\" not defined");
    refuses("{{ 1\u{e9} }}", r#"1: bad number syntax: "1é""#);
    refuses("{{ / }}", r#"1: unexpected "/" in command"#);
    refuses("{{ ! }}", r#"1: unexpected "!" in command"#);
    refuses("{{ print } }}", r#"1: unexpected "}" in operand"#);
    refuses("{{ print @1 }}", r#"1: unexpected "@" in operand"#);
}

#[test]
fn what_may_follow_a_name() {
    gives("{{.s\t}}", "hello");
    gives("{{.s\r\n}}", "hello");
    gives("{{(.s)}}", "hello");
    refuses("{{print(.s)}}", r#"1: unexpected "(" in operand"#);
    refuses("{{print(.s)(.i)}}", r#"1: unexpected "(" in operand"#);
    gives("{{.s|print}}", "hello");
    gives("{{.s |print 1}}", "1hello");
    gives("{{$x:=1}}{{$x}}", "1");
    stops("{{$x =1}}", "1:6 at <1>: undefined variable: $x");
    refuses("{{$x=1}}", "1: bad character U+003D '='");
    gives("{{.m.a}}", "1");
    gives("{{.m.b.c|len}}", "4");
    gives(
        "{{.s}}x{{. }}",
        "helloxmap[bytes:[104 101 108 108 111] e: f:1.2345678e+07 i:7 ints:[3 1 2] l:[1 two <nil>] m:map[a:1 b:map[c:deep]] mss:map[a:A b:] n:<nil> s:hello strs:[p q r] t:true u:200 z:0]",
    );
    refuses("{{.s:}}", "1: expected :=");
    refuses("{{.m.a.}}", "1: unexpected <.> in operand");
    refuses("{{.(1)}}", r#"1: unexpected "(" in operand"#);
    refuses("{{.s(1)}}", r#"1: unexpected "(" in operand"#);
    refuses("{{.s.}}", "1: unexpected <.> in operand");
    refuses("{{..}}", "1: unexpected <.> in operand");
    refuses("{{...}}", "1: unexpected <.> in operand");
    gives("{{.1}}", "0.1");
    refuses("{{.1x}}", r#"1: bad number syntax: ".1x""#);
    gives("{{$.s}}x", "hellox");
    refuses("{{$.}}", "1: unexpected <.> in operand");
    gives("{{$1 := 2}}{{$1}}", "2");
    gives("{{true}}{{false}}", "truefalse");
    refuses("{{truex}}", r#"1: function "truex" not defined"#);
    refuses("{{true.x}}", r#"1: unexpected . after term "true""#);
    gives("{{print true false}}", "true false");
    refuses("{{print(true)}}", r#"1: unexpected "(" in operand"#);
}

#[test]
fn words_of_the_language_are_no_operands() {
    refuses("{{ print block }}", "1: unexpected <block> in operand");
    refuses("{{ print break }}", "1: unexpected <break> in operand");
    refuses("{{ print continue }}", "1: unexpected <continue> in operand");
    refuses("{{ print define }}", "1: unexpected <define> in operand");
    refuses("{{ print else }}", "1: unexpected <else> in operand");
    refuses("{{ print end }}", "1: unexpected <end> in operand");
    refuses("{{ print if }}", "1: unexpected <if> in operand");
    refuses("{{ print range }}", "1: unexpected <range> in operand");
    refuses("{{ print template }}", "1: unexpected <template> in operand");
    refuses("{{ print with }}", "1: unexpected <with> in operand");
    refuses("{{ (block) }}", "1: unexpected <block> in parenthesized pipeline");
    refuses("{{ (define) }}", "1: unexpected <define> in parenthesized pipeline");
    refuses("{{ (if) }}", "1: unexpected <if> in parenthesized pipeline");
    stops("{{ nil }}", "1:3 at <nil>: nil is not a command");
    gives("{{ print nil }}", "<nil>");
    refuses("{{ 1 | nil }}", "1: non executable command in pipeline stage 2");
    stops("{{ if nil }}a{{else}}b{{end}}", "1:6 at <nil>: nil is not a command");
    gives("{{ eq nil nil }}", "true");
    refuses("{{ ifx }}", r#"1: function "ifx" not defined"#);
    gives("{{ .if }}", "<no value>");
    gives("{{ $if := 3 }}{{ $if }}", "3");
    refuses("{{if1}}", r#"1: function "if1" not defined"#);
    refuses("{{end1}}", r#"1: function "end1" not defined"#);
    refuses("{{nil.x}}", r#"1: unexpected . after term "nil""#);
    refuses("{{print nil.x}}", r#"1: unexpected . after term "nil""#);
}

#[test]
fn what_was_not_expected_is_shown_shortened() {
    refuses("{{template abcdefghi}}", r#"1: unexpected "abcdefghi" in template clause"#);
    refuses("{{template abcdefghij}}", r#"1: unexpected "abcdefghij" in template clause"#);
    refuses("{{template abcdefghijk}}", r#"1: unexpected "abcdefghij"... in template clause"#);
    refuses("{{template \u{e9}\u{e9}\u{e9}\u{e9}}}", r#"1: unexpected "éééé" in template clause"#);
    refuses("{{template \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}}}", r#"1: unexpected "ééééé" in template clause"#);
    refuses(
        "{{template \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}}}",
        r#"1: unexpected "éééééé"... in template clause"#,
    );
    refuses(
        "{{template \u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}}}",
        r#"1: unexpected "éééééééééé"... in template clause"#,
    );
    refuses("{{template 1234567890123}}", r#"1: unexpected "1234567890"... in template clause"#);
    refuses("{{template .abcdefghijkl}}", r#"1: unexpected ".abcdefghi"... in template clause"#);
    refuses("{{define abcdefghijk}}{{end}}", r#"1: unexpected "abcdefghij"... in define clause"#);
    refuses("{{block abcdefghijk .}}{{end}}", r#"1: unexpected "abcdefghij"... in block clause"#);
    refuses(r#"{{print 1"abc"}}"#, r#"1: unexpected "\"abc\"" in operand"#);
    refuses(r#"{{print "a"`bcdefghijklmnop`}}"#, r#"1: unexpected "`bcdefghij"... in operand"#);
    refuses("{{template}}", r#"1: unexpected "}}" in template clause"#);
    refuses("{{template \n}}", r#"2: unexpected "}}" in template clause"#);
    refuses("{{template (1)}}", r#"1: unexpected "(" in template clause"#);
    refuses("{{template |}}", r#"1: unexpected "|" in template clause"#);
    refuses("{{template 'x'}}", r#"1: unexpected "'x'" in template clause"#);
    refuses("{{template $x}}", r#"1: unexpected "$x" in template clause"#);
    refuses("{{template nil}}", "1: unexpected <nil> in template clause");
    refuses("{{template .}}", "1: unexpected <.> in template clause");
}
