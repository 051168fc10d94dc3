// Prints, for every struct of the built-in API types, which fields are written although they are empty.
// `generate.py` reads it on standard input. Run it inside of any Go module that requires the packages below.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Fields lists names by how the encoder treats empty values; fields that are left out when empty are not listed.
type Fields struct {
	// Structs are written even if nothing is in them.
	Structs []string `json:"s,omitempty"`
	// Zeros are written as 0, "", false or null.
	Zeros []string `json:"z,omitempty"`
	// Nulls are pointers that are written as null where they are not set.
	Nulls []string `json:"n,omitempty"`
	// Pointers are written whenever they are set.
	Pointers []string `json:"p,omitempty"`
}

var (
	out       = map[string]*Fields{}
	marshaler = reflect.TypeFor[json.Marshaler]()
)

func name(t reflect.Type) string {
	return strings.Replace(strings.ReplaceAll(t.PkgPath(), "/", "."), "k8s.io", "io.k8s", 1) + "." + t.Name()
}

func walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || out[name(t)] != nil || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return
	}
	fields := &Fields{}
	out[name(t)] = fields
	collect(t, fields)
	for _, list := range [][]string{fields.Structs, fields.Zeros, fields.Nulls, fields.Pointers} {
		slices.Sort(list)
	}
}

func collect(t reflect.Type, fields *Fields) {
	for i := range t.NumField() {
		f := t.Field(i)
		parts := strings.Split(f.Tag.Get("json"), ",")
		key, options := parts[0], parts[1:]
		if slices.Contains(options, "inline") || (f.Anonymous && key == "") {
			if f.Type.Kind() == reflect.Struct {
				collect(f.Type, fields)
			}
			continue
		}
		if key == "" || key == "-" || t.Name() == "TypeMeta" {
			continue
		}
		omitempty, omitzero := slices.Contains(options, "omitempty"), slices.Contains(options, "omitzero")
		switch kind := f.Type.Kind(); {
		case kind == reflect.Pointer:
			if omitempty || omitzero {
				fields.Pointers = append(fields.Pointers, key)
			} else {
				fields.Nulls = append(fields.Nulls, key)
			}
		case kind == reflect.Struct && !omitzero:
			if f.Type.Implements(marshaler) || reflect.PointerTo(f.Type).Implements(marshaler) {
				fields.Zeros = append(fields.Zeros, key)
			} else {
				fields.Structs = append(fields.Structs, key)
			}
		case kind != reflect.Struct && !omitempty && !omitzero:
			fields.Zeros = append(fields.Zeros, key)
		}
		walk(f.Type)
	}
}

func main() {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	for _, t := range s.AllKnownTypes() {
		walk(t)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
}
