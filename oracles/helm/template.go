package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"time"
	_ "time/tzdata" // time zones must not depend on what is installed
	_ "unsafe"      // for go:linkname

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v3/pkg/engine"
)

// helmFuncs is Helm's function map, which Helm does not export; the linker can still reach it.
//
//go:linkname helmFuncs helm.sh/helm/v3/pkg/engine.Engine.initFunMap
func helmFuncs(e engine.Engine, t *template.Template)

// opTemplate runs text/template alone.
func opTemplate(r *request) (any, error) {
	var q struct {
		// Name of the root template (default "t").
		Name string
		Text text
		// Templates are further files, parsed after Text in the given order.
		Templates []struct {
			Name string
			Text text
		}
		Data value
		// Missingkey is default, invalid, zero or error; empty sets no option.
		Missingkey string
		// Funcs is none, sprig or helm (default helm).
		Funcs string
		// Execute names the template to run (default Name).
		Execute string
		// Delims are the action delimiters.
		Delims []string
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	if q.Name == "" {
		q.Name = "t"
	}
	t := template.New(q.Name)
	switch q.Funcs {
	case "none":
	case "sprig":
		t.Funcs(sprig.TxtFuncMap())
	case "", "helm":
		helmFuncs(engine.Engine{}, t)
	default:
		return nil, badRequest{fmt.Errorf("unknown function set %q", q.Funcs)}
	}
	if q.Missingkey != "" {
		t.Option("missingkey=" + q.Missingkey)
	}
	if len(q.Delims) == 2 {
		t.Delims(q.Delims[0], q.Delims[1])
	}
	if _, err := t.Parse(string(q.Text)); err != nil {
		return nil, kindError{err, "parse", nil}
	}
	for _, f := range q.Templates {
		if _, err := t.New(f.Name).Parse(string(f.Text)); err != nil {
			return nil, kindError{err, "parse", nil}
		}
	}
	var out strings.Builder
	if q.Execute == "" {
		q.Execute = q.Name
	}
	if err := t.ExecuteTemplate(&out, q.Execute, q.Data.v); err != nil {
		return nil, kindError{err, "exec", text(out.String())}
	}
	return text(out.String()), nil
}

// builtins are the built-in functions and keywords of text/template.
var builtins = []string{
	"and", "break", "call", "continue", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or",
	"print", "printf", "println", "slice", "urlquery",
}

// opFunctions lists the functions available to templates under Helm, with the Go signature where sprig provides it.
func opFunctions(*request) (any, error) {
	t := template.New("t")
	helmFuncs(engine.Engine{}, t)
	// text/template does not list its functions, so each candidate is tried by name.
	offered := func(name string) bool {
		_, err := template.Must(t.Clone()).Parse("{{" + name + "}}")
		return err == nil || !strings.Contains(err.Error(), "not defined")
	}
	out := map[string]string{}
	for name, f := range sprig.TxtFuncMap() {
		if offered(name) {
			out[name] = reflect.TypeOf(f).String()
		}
	}
	for _, name := range []string{
		"fromJson", "fromJsonArray", "fromToml", "fromYaml", "fromYamlArray", "include", "lookup", "mustToToml",
		"required", "toJson", "toToml", "toYaml", "toYamlPretty", "tpl",
	} {
		if offered(name) {
			out[name] = "helm"
		}
	}
	for _, name := range builtins {
		// sprig's slice overrides that of text/template.
		if _, ok := out[name]; !ok {
			out[name] = "builtin"
		}
	}
	return out, nil
}

// opFmt formats typed arguments.
func opFmt(r *request) (any, error) {
	var q struct {
		Format text
		Args   []value
		// Print is printf (default), print or println.
		Print string
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	args := make([]any, len(q.Args))
	for i, a := range q.Args {
		args[i] = a.v
	}
	switch q.Print {
	case "print":
		return text(fmt.Sprint(args...)), nil
	case "println":
		return text(fmt.Sprintln(args...)), nil
	}
	return text(fmt.Sprintf(string(q.Format), args...)), nil
}

// opDate formats or parses a time.
func opDate(r *request) (any, error) {
	var q struct {
		Layout text
		Unix   int64
		Nanos  int64
		// Zone is the time zone for parsing and formatting (default UTC).
		Zone string
		// Parse, if given, is parsed with Layout instead of formatting Unix.
		Parse *text
		// Duration, if given, is parsed as a Go duration.
		Duration *text
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return nil, badRequest{err}
	}
	switch {
	case q.Duration != nil:
		d, err := time.ParseDuration(string(*q.Duration))
		if err != nil {
			return nil, err
		}
		return map[string]any{"nanos": fmt.Sprint(int64(d)), "string": d.String()}, nil
	case q.Parse != nil:
		at, err := time.ParseInLocation(string(q.Layout), string(*q.Parse), zone)
		if err != nil {
			return nil, err
		}
		return map[string]any{"unix": at.Unix(), "nanos": at.Nanosecond(), "string": text(at.String())}, nil
	}
	return text(time.Unix(q.Unix, q.Nanos).In(zone).Format(string(q.Layout))), nil
}

// opRegex runs a regular expression as sprig's functions do.
func opRegex(r *request) (any, error) {
	var q struct {
		// Do is match, find, findall, replace, replace-literal, split or quote.
		Do      string
		Pattern text
		Text    text
		With    text
		N       int
	}
	q.N = -1
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	if q.Do == "quote" {
		return text(regexp.QuoteMeta(string(q.Text))), nil
	}
	re, err := regexp.Compile(string(q.Pattern))
	if err != nil {
		return nil, err
	}
	in := string(q.Text)
	switch q.Do {
	case "match":
		return re.MatchString(in), nil
	case "find":
		return text(re.FindString(in)), nil
	case "findall":
		return texts(re.FindAllString(in, q.N)), nil
	case "replace":
		return text(re.ReplaceAllString(in, string(q.With))), nil
	case "replace-literal":
		return text(re.ReplaceAllLiteralString(in, string(q.With))), nil
	case "split":
		return texts(re.Split(in, q.N)), nil
	}
	return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
}

func texts(in []string) []text {
	out := make([]text, len(in))
	for i, s := range in {
		out[i] = text(s)
	}
	return out
}
