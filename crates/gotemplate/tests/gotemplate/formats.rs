//! `printf` with every verb and flag, and with malformed formats. Each expectation was recorded from Go.

use steersman_gotemplate::{FloatType, List, ListType, Map, MapType, UintType, Value, fmt};

use super::printing::prints;

fn n(number: i64) -> Value {
    Value::int(number)
}

fn f(number: f64) -> Value {
    Value::float(number)
}

fn s(text: &str) -> Value {
    Value::string(text)
}

fn b(bytes: &str) -> Value {
    Value::Bytes(bytes.into())
}

#[test]
fn operands_by_number() {
    prints("%[2]*[1]d", &[n(12), n(6)], "    12");
    prints("%[2]*d", &[n(12), n(6)], "%!d(MISSING)");
    prints("%[3]*.[2]*[1]f", &[f(12.0), n(2), n(6)], " 12.00");
    prints("%[1]d %[1]v", &[n(7)], "7 7");
    prints("%d %d %#[1]x %#x", &[n(16), n(17)], "16 17 0x10 0x11");
    prints("%[5]d %[2]d", &[n(1), n(2)], "%!d(BADINDEX) 2");
    prints("%[2]d", &[n(1), n(2)], "2");
    prints("%[1]d", &[n(1), n(2)], "1");
    prints("%[1]d %d", &[n(1), n(2)], "1 2");
    prints("%[2]d %d", &[n(1), n(2)], "2 %!d(MISSING)");
    prints("%[d", &[n(1)], "%!d(BADINDEX)");
    prints("%[]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1]", &[n(1)], "%!(NOVERB)");
    prints("%[1", &[n(1)], "%!(NOVERB)");
    prints("%[", &[n(1)], "%!(NOVERB)");
    prints("%[-1]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[0]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1]d", &[n(1)], "1");
    prints("%[3]d", &[n(1), n(2)], "%!d(BADINDEX)");
    prints("%[x]d|%d", &[n(1)], "%!d(BADINDEX)|1");
    prints("%[1]2d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1].2d", &[n(1)], "%!d(BADINDEX)");
    prints("%.[1]2d", &[n(1)], "01");
    prints("%.[1]d", &[n(1)], "1");
    prints("%.[2]*d", &[n(1), n(4), n(9)], "0009");
    prints("%[2].[1]*f", &[n(3), f(2.5)], "%!f(BADINDEX)");
    prints("%2[1]d", &[n(1)], " 1");
    prints("%[2]*.[1]*f", &[n(3), n(8)], "%!f(int=     008)");
    prints("%[ 1]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1x]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[2000000]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1]*d", &[n(3), n(4)], "  4");
    prints("%[3]*d", &[n(3), n(4)], "%!d(BADINDEX)");
    prints("%[1]%|%d", &[n(3), n(4)], "%|3");
    prints("%[9]%", &[n(3)], "%");
    prints("%-[1]d|", &[n(5)], "5|");
    prints("%[1]-5d|", &[n(5)], "%!-(int=5)5d|");
    prints("%[1]d%[2]d%[1]d", &[n(1), n(2)], "121");
    prints("%[2]d", &[n(1)], "%!d(BADINDEX)");
    prints("%[1]\u{e9}", &[n(1)], "%!\u{e9}(int=1)");
}
#[test]
fn widths_and_precisions_from_operands() {
    prints("%*d", &[n(5), n(3)], "    3");
    prints("%*d|", &[n(-5), n(3)], "3    |");
    prints("%0*d|", &[n(-5), n(3)], "3    |");
    prints("%0*d|", &[n(5), n(3)], "00003|");
    prints("%-*d|", &[n(5), n(3)], "3    |");
    prints("%*d", &[s("x"), n(3)], "%!(BADWIDTH)3");
    prints("%*d", &[f(1.5), n(3)], "%!(BADWIDTH)3");
    prints("%*d", &[Value::Nil, n(3)], "%!(BADWIDTH)3");
    prints("%*d", &[], "%!(BADWIDTH)%!d(MISSING)");
    prints("%*d", &[n(5)], "%!d(MISSING)");
    prints("%*d", &[n(1000001), n(3)], "%!(BADWIDTH)3");
    prints("%*d", &[n(-1000001), n(3)], "%!(BADWIDTH)3");
    prints("%*d", &[Value::Uint(5, UintType::Uint8), n(3)], "    3");
    prints("%*d", &[Value::Uint(18446744073709551615, UintType::Uint64), n(3)], "%!(BADWIDTH)3");
    prints("%.*d", &[n(4), n(3)], "0003");
    prints("%.*d", &[n(-1), n(3)], "%!(BADPREC)3");
    prints("%.*d", &[s("x"), n(3)], "%!(BADPREC)3");
    prints("%.*d", &[], "%!(BADPREC)%!d(MISSING)");
    prints("%.*d", &[n(4)], "%!d(MISSING)");
    prints("%.*s|", &[n(2), s("abc")], "ab|");
    prints("%*.*f|", &[n(8), n(2), f(1.5)], "    1.50|");
    prints("%*.*f|", &[n(-8), n(2), f(1.5)], "1.50    |");
    prints("%.*f", &[n(1000001), f(1.5)], "%!(BADPREC)1.500000");
    prints("%*s|", &[n(4), s("\u{e9}")], "   \u{e9}|");
    prints("%.*d", &[Value::Uint(3, UintType::Uint8), n(1)], "001");
}
#[test]
fn widths_and_precisions_that_are_written() {
    prints("%.d", &[n(3)], "3");
    prints("%.d", &[n(0)], "");
    prints("%.0d|", &[n(0)], "|");
    prints("%5.d|", &[n(0)], "     |");
    prints("%.3d", &[n(-7)], "-007");
    prints("%5.3d|", &[n(-7)], " -007|");
    prints("%-5.3d|", &[n(7)], "007  |");
    prints("%05.3d|", &[n(7)], "  007|");
    prints("%.", &[n(3)], "%!.(int=3)");
    prints("%5.", &[n(3)], "%!.(int=    3)");
    prints("%.3", &[n(3)], "%!(NOVERB)%!(EXTRA int=3)");
    prints("%5", &[n(3)], "%!(NOVERB)%!(EXTRA int=3)");
    prints("%-", &[n(3)], "%!(NOVERB)%!(EXTRA int=3)");
    prints("%.3.2d", &[n(1)], "%!.(int=001)2d");
    prints("%3.2.1d", &[n(1)], "%!.(int= 01)1d");
    prints("%08d|%-08d|%08s|%-08s|", &[n(42), n(42), s("x"), s("y")], "00000042|42      |0000000x|y       |");
    prints("%+08d|% 08d", &[n(42), n(42)], "+0000042| 0000042");
    prints(
        "%x|%#x|%# x|% x|%X|%#X|%# X",
        &[s("hi!"), s("hi!"), s("hi!"), s("hi!"), s("hi!"), s("hi!"), s("hi!")],
        "686921|0x686921|0x68 0x69 0x21|68 69 21|686921|0X686921|0X68 0X69 0X21",
    );
    prints("%.2x|% .2x|%6.1x|", &[s("hi!"), s("hi!"), s("hi!")], "6869|68 69|    68|");
    prints(
        "%.1q|%5q|%-5q|%05q|%#q|%+q|%#+q",
        &[s("\u{e9}`"), s("a"), s("a"), s("a"), s("a\nb"), s("\u{e9}"), s("\u{e9}")],
        r#""é"|  "a"|"a"  |00"a"|"a\nb"|"\u00e9"|`é`"#,
    );
    prints(
        "%5t|%-6t|%05t",
        &[Value::Bool(true), Value::Bool(false), Value::Bool(true)],
        " true|false |0true",
    );
    prints("%5c|%-3c|%03c|", &[n(65), n(66), n(67)], "    A|B  |00C|");
    prints("%5q|%-5q|%+q|%#q", &[n(65), n(66), n(233), n(233)], r#"  'A'|'B'  |'\u00e9'|'é'"#);
    prints(
        "%U|%#U|%8U|%-8U|%.6U|%#.5U|%+U",
        &[n(65), n(65), n(65), n(65), n(65), n(233), n(65)],
        "U+0041|U+0041 'A'|  U+0041|U+0041  |U+000041|U+000E9 '\u{e9}'|U+0041",
    );
    prints(
        "%o|%#o|%O|%b|%#b|%#X|%+x|% X",
        &[n(8), n(8), n(8), n(5), n(5), n(255), n(255), n(255)],
        "10|010|0o10|101|0b101|0XFF|+ff| FF",
    );
}
#[test]
fn formats_that_end_or_go_wrong() {
    prints("", &[], "");
    prints("a", &[n(1), s("b"), Value::Nil], "a%!(EXTRA int=1, string=b, <nil>)");
    prints("%d", &[n(1), f(2.5)], "1%!(EXTRA float64=2.5)");
    prints("", &[Value::list(vec![n(1), s("a")])], "%!(EXTRA []interface {}=[1 a])");
    prints("%", &[n(1)], "%!(NOVERB)%!(EXTRA int=1)");
    prints("a%", &[], "a%!(NOVERB)");
    prints("%!", &[], "%!!(MISSING)");
    prints("%!", &[n(1)], "%!!(int=1)");
    prints("%z", &[n(1)], "%!z(int=1)");
    prints("%\u{e9}", &[n(1)], "%!\u{e9}(int=1)");
    prints("%\u{4e16}|", &[s("x")], "%!\u{4e16}(string=x)|");
    prints("%%", &[], "%");
    prints("%%", &[n(1)], "%%!(EXTRA int=1)");
    prints("%5%|%-5%|%05%", &[], "%|%|%");
    prints("%d%", &[n(1)], "1%!(NOVERB)");
    prints("%d %s", &[n(1)], "1 %!s(MISSING)");
    prints("%s", &[], "%!s(MISSING)");
    prints("%-+# 0d", &[n(5)], "+5");
    prints("%+-5d|", &[n(5)], "+5   |");
    prints("% +d", &[n(5)], "+5");
    prints("%v", &[], "%!v(MISSING)");
    prints("%d %d", &[n(1), n(2)], "1 2");
    prints("%d %d", &[n(1), n(2), n(3)], "1 2%!(EXTRA int=3)");
    prints("a%db%sc", &[n(1), s("x")], "a1bxc");
    prints("%s%s%s", &[s("a"), s("b"), s("c")], "abc");
    prints("%#v%v%+v%v", &[s("a"), s("b"), Value::map([("k", n(1))]), s("c")], r#""a"bmap[k:1]c"#);
    prints("%+v %v", &[f(1.5), f(1.5)], "1.5 1.5");
    prints("%w", &[n(1)], "%!w(int=1)");
    prints("%w", &[s("a")], "%!w(string=a)");
    prints("%w", &[Value::list(vec![n(1), s("a")])], "%!w([]interface {}=[1 a])");
    prints("%w", &[Value::map([("a", n(1))])], "%!w(map[string]interface {}=map[a:1])");
    prints("%w", &[Value::Nil], "%!w(<nil>)");
    prints("%w", &[b("hi")], "[%!w(uint8=104) %!w(uint8=105)]");
    prints("%#w", &[s("a")], r#"%!w(string="a")"#);
    prints("%+w", &[n(1)], "%!w(int=1)");
}
#[test]
fn verbs_that_do_not_fit() {
    prints("%t", &[n(1)], "%!t(int=1)");
    prints("%s", &[n(1)], "%!s(int=1)");
    prints("%d", &[n(1)], "1");
    prints("%c", &[n(1)], "\x01");
    prints("%q", &[n(1)], r#"'\x01'"#);
    prints("%U", &[n(1)], "U+0001");
    prints("%x", &[n(1)], "1");
    prints("%e", &[n(1)], "%!e(int=1)");
    prints("%T", &[n(1)], "int");
    prints("%p", &[n(1)], "%!p(int=1)");
    prints("%b", &[n(1)], "1");
    prints("%O", &[n(1)], "0o1");
    prints("%v", &[n(1)], "1");
    prints("%t", &[f(1.5)], "%!t(float64=1.5)");
    prints("%s", &[f(1.5)], "%!s(float64=1.5)");
    prints("%d", &[f(1.5)], "%!d(float64=1.5)");
    prints("%c", &[f(1.5)], "%!c(float64=1.5)");
    prints("%q", &[f(1.5)], "%!q(float64=1.5)");
    prints("%U", &[f(1.5)], "%!U(float64=1.5)");
    prints("%x", &[f(1.5)], "0x1.8p+00");
    prints("%e", &[f(1.5)], "1.500000e+00");
    prints("%T", &[f(1.5)], "float64");
    prints("%p", &[f(1.5)], "%!p(float64=1.5)");
    prints("%b", &[f(1.5)], "6755399441055744p-52");
    prints("%O", &[f(1.5)], "%!O(float64=1.5)");
    prints("%v", &[f(1.5)], "1.5");
    prints("%t", &[s("a")], "%!t(string=a)");
    prints("%s", &[s("a")], "a");
    prints("%d", &[s("a")], "%!d(string=a)");
    prints("%c", &[s("a")], "%!c(string=a)");
    prints("%q", &[s("a")], r#""a""#);
    prints("%U", &[s("a")], "%!U(string=a)");
    prints("%x", &[s("a")], "61");
    prints("%e", &[s("a")], "%!e(string=a)");
    prints("%T", &[s("a")], "string");
    prints("%p", &[s("a")], "%!p(string=a)");
    prints("%b", &[s("a")], "%!b(string=a)");
    prints("%O", &[s("a")], "%!O(string=a)");
    prints("%v", &[s("a")], "a");
    prints("%t", &[Value::Bool(true)], "true");
    prints("%s", &[Value::Bool(true)], "%!s(bool=true)");
    prints("%d", &[Value::Bool(true)], "%!d(bool=true)");
    prints("%c", &[Value::Bool(true)], "%!c(bool=true)");
    prints("%q", &[Value::Bool(true)], "%!q(bool=true)");
    prints("%U", &[Value::Bool(true)], "%!U(bool=true)");
    prints("%x", &[Value::Bool(true)], "%!x(bool=true)");
    prints("%e", &[Value::Bool(true)], "%!e(bool=true)");
    prints("%T", &[Value::Bool(true)], "bool");
    prints("%p", &[Value::Bool(true)], "%!p(bool=true)");
    prints("%b", &[Value::Bool(true)], "%!b(bool=true)");
    prints("%O", &[Value::Bool(true)], "%!O(bool=true)");
    prints("%v", &[Value::Bool(true)], "true");
    prints("%t", &[Value::Nil], "%!t(<nil>)");
    prints("%s", &[Value::Nil], "%!s(<nil>)");
    prints("%d", &[Value::Nil], "%!d(<nil>)");
    prints("%c", &[Value::Nil], "%!c(<nil>)");
    prints("%q", &[Value::Nil], "%!q(<nil>)");
    prints("%U", &[Value::Nil], "%!U(<nil>)");
    prints("%x", &[Value::Nil], "%!x(<nil>)");
    prints("%e", &[Value::Nil], "%!e(<nil>)");
    prints("%T", &[Value::Nil], "<nil>");
    prints("%p", &[Value::Nil], "%!p(<nil>)");
    prints("%b", &[Value::Nil], "%!b(<nil>)");
    prints("%O", &[Value::Nil], "%!O(<nil>)");
    prints("%v", &[Value::Nil], "<nil>");
    prints("%t", &[Value::Complex(1.0, 2.0)], "%!t(complex128=(1+2i))");
    prints("%s", &[Value::Complex(1.0, 2.0)], "%!s(complex128=(1+2i))");
    prints("%d", &[Value::Complex(1.0, 2.0)], "%!d(complex128=(1+2i))");
    prints("%c", &[Value::Complex(1.0, 2.0)], "%!c(complex128=(1+2i))");
    prints("%q", &[Value::Complex(1.0, 2.0)], "%!q(complex128=(1+2i))");
    prints("%U", &[Value::Complex(1.0, 2.0)], "%!U(complex128=(1+2i))");
    prints("%x", &[Value::Complex(1.0, 2.0)], "(0x1p+00+0x1p+01i)");
    prints("%e", &[Value::Complex(1.0, 2.0)], "(1.000000e+00+2.000000e+00i)");
    prints("%T", &[Value::Complex(1.0, 2.0)], "complex128");
    prints("%p", &[Value::Complex(1.0, 2.0)], "%!p(complex128=(1+2i))");
    prints("%b", &[Value::Complex(1.0, 2.0)], "(4503599627370496p-52+4503599627370496p-51i)");
    prints("%O", &[Value::Complex(1.0, 2.0)], "%!O(complex128=(1+2i))");
    prints("%v", &[Value::Complex(1.0, 2.0)], "(1+2i)");
    prints("%t", &[Value::Uint(7, UintType::Uint8)], "%!t(uint8=7)");
    prints("%s", &[Value::Uint(7, UintType::Uint8)], "%!s(uint8=7)");
    prints("%d", &[Value::Uint(7, UintType::Uint8)], "7");
    prints("%c", &[Value::Uint(7, UintType::Uint8)], "\x07");
    prints("%q", &[Value::Uint(7, UintType::Uint8)], r#"'\a'"#);
    prints("%U", &[Value::Uint(7, UintType::Uint8)], "U+0007");
    prints("%x", &[Value::Uint(7, UintType::Uint8)], "7");
    prints("%e", &[Value::Uint(7, UintType::Uint8)], "%!e(uint8=7)");
    prints("%T", &[Value::Uint(7, UintType::Uint8)], "uint8");
    prints("%p", &[Value::Uint(7, UintType::Uint8)], "%!p(uint8=7)");
    prints("%b", &[Value::Uint(7, UintType::Uint8)], "111");
    prints("%O", &[Value::Uint(7, UintType::Uint8)], "0o7");
    prints("%v", &[Value::Uint(7, UintType::Uint8)], "7");
}
#[test]
fn floats_under_every_verb() {
    prints(
        "%e|%E|%f|%F|%g|%G|%b|%x|%X|%v",
        &[f(1.5), f(1.5), f(1.5), f(1.5), f(1.5), f(1.5), f(1.5), f(1.5), f(1.5), f(1.5)],
        "1.500000e+00|1.500000E+00|1.500000|1.500000|1.5|1.5|6755399441055744p-52|0x1.8p+00|0X1.8P+00|1.5",
    );
    prints(
        "%e|%E|%f|%F|%g|%G|%x|%X|%v",
        &[f(1e+21), f(1e+21), f(1e+21), f(1e+21), f(1e+21), f(1e+21), f(1e+21), f(1e+21), f(1e+21)],
        "1.000000e+21|1.000000E+21|1000000000000000000000.000000|1000000000000000000000.000000|1e+21|1E+21|0x1.b1ae4d6e2ef5p+69|0X1.B1AE4D6E2EF5P+69|1e+21",
    );
    prints(
        "%.2e|%.2f|%.2g|%.2x|%.0f|%.0e|%.0g|%.0x",
        &[f(2.55), f(2.55), f(2.55), f(2.55), f(2.55), f(2.55), f(2.55), f(2.55)],
        "2.55e+00|2.55|2.5|0x1.46p+01|3|3e+00|3|0x1p+01",
    );
    prints(
        "%8.1f|%-8.1f|%08.1f|%+8.1f|% 8.1f|%+.1f|% .1f",
        &[f(-2.5), f(-2.5), f(-2.5), f(-2.5), f(-2.5), f(-2.5), f(-2.5)],
        "    -2.5|-2.5    |-00002.5|    -2.5|    -2.5|-2.5|-2.5",
    );
    prints(
        "%+8.1f|% 8.1f|%+.1f|% .1f|%+08.1f|% 08.1f",
        &[f(2.5), f(2.5), f(2.5), f(2.5), f(2.5), f(2.5)],
        "    +2.5|     2.5|+2.5| 2.5|+00002.5| 00002.5",
    );
    prints(
        "%5v|%05v|%-5v|%+v|% v|%+5v",
        &[
            f(f64::INFINITY),
            f(f64::INFINITY),
            f(f64::INFINITY),
            f(f64::INFINITY),
            f(f64::INFINITY),
            f(f64::INFINITY),
        ],
        " +Inf| +Inf|+Inf |+Inf| Inf| +Inf",
    );
    prints(
        "%5v|%05v|%-5v|%+v|% v",
        &[f(f64::NAN), f(f64::NAN), f(f64::NAN), f(f64::NAN), f(f64::NAN)],
        "  NaN|  NaN|NaN  |NaN| NaN",
    );
    prints(
        "%5v|%05v|%-5v|%+v|% v",
        &[
            f(f64::NEG_INFINITY),
            f(f64::NEG_INFINITY),
            f(f64::NEG_INFINITY),
            f(f64::NEG_INFINITY),
            f(f64::NEG_INFINITY),
        ],
        " -Inf| -Inf|-Inf |-Inf|-Inf",
    );
    prints("%#v|%#v|%#v|%#v|%#v", &[f(1.0), f(1000000.0), f(1e+21), f(1.5), f(-0.0)], "1|1e+06|1e+21|1.5|-0");
    prints(
        "%#g|%#f|%#.0f|%#e|%#.3g",
        &[f(1.0), f(1.0), f(1.0), f(1.0), f(1.0)],
        "1.00000|1.000000|1.|1.000000e+00|1.00",
    );
    prints(
        "%v|%v|%v",
        &[
            Value::Float(f64::from(0.1_f32), FloatType::Float32),
            Value::Float(f64::from(16777216.0_f32), FloatType::Float32),
            Value::Float(f64::from(1e-07_f32), FloatType::Float32),
        ],
        "0.1|1.6777216e+07|1e-07",
    );
    prints(
        "%g|%e|%x",
        &[
            Value::Float(f64::from(0.1_f32), FloatType::Float32),
            Value::Float(f64::from(0.1_f32), FloatType::Float32),
            Value::Float(f64::from(0.1_f32), FloatType::Float32),
        ],
        "0.1|1.000000e-01|0x1.99999ap-04",
    );
    prints("%6.2f|%8.3e|%10.3g|", &[f(2.34567), f(2.34567), f(2.34567)], "  2.35|2.346e+00|      2.35|");
    prints(
        "%20g|%-20g|%020g",
        &[f(1e-07), f(1e-07), f(1e-07)],
        "               1e-07|1e-07               |0000000000000001e-07",
    );
}
#[test]
fn complex_numbers_under_every_verb() {
    prints(
        "%v|%g|%G|%e|%E|%f|%F|%b|%x|%X",
        &[
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
            Value::Complex(1.5, -2.5),
        ],
        "(1.5-2.5i)|(1.5-2.5i)|(1.5-2.5i)|(1.500000e+00-2.500000e+00i)|(1.500000E+00-2.500000E+00i)|(1.500000-2.500000i)|(1.500000-2.500000i)|(6755399441055744p-52-5629499534213120p-51i)|(0x1.8p+00-0x1.4p+01i)|(0X1.8P+00-0X1.4P+01i)",
    );
    prints(
        "%.1f|%8.2f|%+v|% v|%+.1f|%08.1f|%-8.1f|",
        &[
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
        ],
        "(1.0+2.0i)|(    1.00   +2.00i)|(1+2i)|( 1+2i)|(+1.0+2.0i)|(000001.0+00002.0i)|(1.0     +2.0    i)|",
    );
    prints("%#v|%T", &[Value::Complex(1.0, 2.0), Value::Complex(1.0, 2.0)], "(1+2i)|complex128");
    prints(
        "%d|%s|%q|%t|%c|%U",
        &[
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 2.0),
        ],
        "%!d(complex128=(1+2i))|%!s(complex128=(1+2i))|%!q(complex128=(1+2i))|%!t(complex128=(1+2i))|%!c(complex128=(1+2i))|%!U(complex128=(1+2i))",
    );
    prints("%v %v", &[Value::Complex(1.0, 2.0), f(1.5)], "(1+2i) 1.5");
}
#[test]
fn bytes_under_every_verb() {
    prints(
        "%v|%d|%s|%q|%x|%X|%o|%c|%U|%b",
        &[b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi")],
        r#"[104 105]|[104 105]|hi|"hi"|6869|6869|[150 151]|[h i]|[U+0068 U+0069]|[1101000 1101001]"#,
    );
    prints("%t|%e", &[b("h"), b("h")], "[%!t(uint8=104)]|[%!e(uint8=104)]");
    prints(
        "%#v|%#d|%#x|%#q|%+q|%# x",
        &[b("hi"), b("hi"), b("hi"), b("hi"), b("hi"), b("hi")],
        r#"[]byte{0x68, 0x69}|[104 105]|0x6869|`hi`|"hi"|0x68 0x69"#,
    );
    prints(
        "%5d|%-4d|%05d|%3s|%.1s|",
        &[b("hi"), b("hi"), b("hi"), b("hi"), b("hi")],
        "[  104   105]|[104  105 ]|[00104 00105]| hi|h|",
    );
    prints(
        "%v|%#v|%s|%d|%x",
        &[
            Value::list(vec![b("hi")]),
            Value::list(vec![b("hi")]),
            Value::list(vec![b("hi")]),
            Value::list(vec![b("hi")]),
            Value::list(vec![b("hi")]),
        ],
        "[[104 105]]|[]interface {}{[]uint8{0x68, 0x69}}|[hi]|[[104 105]]|[6869]",
    );
    prints("%#v|%v|%s|%x|%q", &[b(""), b(""), b(""), b(""), b("")], r#"[]byte{}|[]|||"""#);
    prints(
        "%T|%T|%T",
        &[b(""), Value::list(vec![b("")]), Value::strings(["a"])],
        "[]uint8|[]interface {}|[]string",
    );
    prints("%#v", &[Value::map([("k", b("a"))])], r#"map[string]interface {}{"k":[]uint8{0x61}}"#);
    prints("%#d", &[Value::list(vec![b("a")])], "[[97]]");
    prints("%#s", &[b("a")], "a");
}
#[test]
fn containers_under_every_verb() {
    prints(
        "%s|%q|%x|%d|%v|%t",
        &[
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
            Value::list(vec![s("a"), n(1), Value::Nil, Value::Bool(true)]),
        ],
        r#"[a %!s(int=1) <nil> %!s(bool=true)]|["a" '\x01' <nil> %!q(bool=true)]|[61 1 <nil> %!x(bool=true)]|[%!d(string=a) 1 <nil> %!d(bool=true)]|[a 1 <nil> true]|[%!t(string=a) %!t(int=1) <nil> true]"#,
    );
    prints(
        "%s|%q|%x|%d|%v|%t",
        &[
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
            Value::map([("a", n(1)), ("b", s("c")), ("n", Value::Nil)]),
        ],
        r#"map[a:%!s(int=1) b:c n:<nil>]|map["a":'\x01' "b":"c" "n":<nil>]|map[61:1 62:63 6e:<nil>]|map[%!d(string=a):1 %!d(string=b):%!d(string=c) %!d(string=n):<nil>]|map[a:1 b:c n:<nil>]|map[%!t(string=a):%!t(int=1) %!t(string=b):%!t(string=c) %!t(string=n):<nil>]"#,
    );
    prints(
        "%5v|%-5v|%05d",
        &[Value::list(vec![n(1), s("a")]), Value::list(vec![n(1), s("a")]), Value::list(vec![n(1), s("a")])],
        "[    1     a]|[1     a    ]|[00001 %!d(string=0000a)]",
    );
    prints(
        "%#v|%#v|%#v|%#v",
        &[
            Value::strings(["a"]),
            Value::List(List::nil(ListType::STRING)),
            Value::Map(Map::nil(MapType::STRING)),
            Value::list(vec![]),
        ],
        r#"[]string{"a"}|[]string(nil)|map[string]string(nil)|[]interface {}{}"#,
    );
    prints(
        "%v|%v|%v|%s|%d",
        &[
            Value::strings([""; 0]),
            Value::List(List::nil(ListType::STRING)),
            Value::Map(Map::nil(MapType::STRING)),
            Value::List(List::nil(ListType::STRING)),
            Value::list(vec![]),
        ],
        "[]|[]|map[]|[]|[]",
    );
    prints(
        "%#v|%#v",
        &[
            Value::map([("a", Value::list(vec![n(1), Value::map([("b", Value::Nil)])]))]),
            Value::list(vec![Value::list(vec![]), Value::Map(Map::new())]),
        ],
        r#"map[string]interface {}{"a":[]interface {}{1, map[string]interface {}{"b":interface {}(nil)}}}|[]interface {}{[]interface {}{}, map[string]interface {}{}}"#,
    );
    prints("%+v|%+v", &[Value::map([("a", n(1))]), Value::list(vec![n(1), n(-1)])], "map[a:1]|[1 -1]");
    prints(
        "%+d|% d|%x",
        &[Value::list(vec![n(1), n(-1)]), Value::list(vec![n(1), n(-1)]), Value::list(vec![n(10), s("hi")])],
        "[+1 -1]|[ 1 -1]|[a 6869]",
    );
    prints("%#x|%#o", &[Value::list(vec![n(10), s("hi")]), Value::list(vec![n(8)])], "[0xa 0x6869]|[010]");
    prints(
        "%p|%x|%d|%v",
        &[
            Value::List(List::nil(ListType::STRING)),
            Value::List(List::nil(ListType::STRING)),
            Value::List(List::nil(ListType::STRING)),
            Value::List(List::nil(ListType::STRING)),
        ],
        "0x0|[]|[]|[]",
    );
    prints(
        "%.1f|%6.2f",
        &[Value::list(vec![f(1.25), s("a")]), Value::map([("k", f(2.5))])],
        "[1.2 %!f(string=a)]|map[%!f(string=     k):  2.50]",
    );
    prints(
        "%T|%T|%T",
        &[Value::list(vec![]), Value::Map(Map::new()), Value::Nil],
        "[]interface {}|map[string]interface {}|<nil>",
    );
    prints(
        "%#v|%#v|%#v|%#v|%#v",
        &[n(1), s("a`"), Value::Bool(true), Value::Nil, Value::Uint(7, UintType::Uint8)],
        r#"1|"a`"|true|<nil>|0x7"#,
    );
    prints(
        "%x|%X|%#x|% x",
        &[
            Value::list(vec![s("ab"), s("cd")]),
            Value::list(vec![s("ab"), s("cd")]),
            Value::list(vec![s("ab")]),
            Value::list(vec![s("ab")]),
        ],
        "[6162 6364]|[6162 6364]|[0x6162]|[61 62]",
    );
}

#[test]
fn a_number_in_a_format_ends_it_beyond_a_million() {
    let length = |format: &str| fmt::sprintf(format.as_bytes(), &[n(1)]).unwrap().len();
    assert_eq!(length("%1000000d"), 1_000_000);
    assert_eq!(length("%1000001d"), 1_000_001);
    prints("%10000010d|", &[n(1)], "%!(NOVERB)%!(EXTRA int=1)");
    prints("%.10000010d|", &[n(1)], "%!(NOVERB)%!(EXTRA int=1)");
    let wide = fmt::sprintf(b"%*d", &[n(1_000_000), n(1)]).unwrap();
    assert_eq!(wide.len(), 1_000_000);
    let wide = fmt::sprintf(b"%*d", &[n(-1_000_000), n(1)]).unwrap();
    assert_eq!((wide.len(), wide.first()), (1_000_000, Some(&b'1')));
}
