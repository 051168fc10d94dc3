package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"
)

// text is a string of any bytes: valid UTF-8 is encoded as a JSON string, the rest as {"$b64": …}.
type text string

func asText(s string) *text {
	t := text(s)
	return &t
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return marshal(string(t))
	}
	return json.Marshal(map[string]string{"$b64": base64.StdEncoding.EncodeToString([]byte(t))})
}

func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = text(s)
		return nil
	}
	var wrapped struct {
		B64 *string `json:"$b64"`
	}
	if err := json.Unmarshal(data, &wrapped); err != nil {
		return err
	}
	if wrapped.B64 == nil {
		return fmt.Errorf("neither a string nor {\"$b64\": …}: %s", data)
	}
	raw, err := base64.StdEncoding.DecodeString(*wrapped.B64)
	*t = text(raw)
	return err
}

func marshal(v any) ([]byte, error) {
	var buf jsonBuffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return buf, err
}

type jsonBuffer []byte

func (b *jsonBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// value is a Go value encoded as JSON. Plain JSON gives nil, bool, float64, string, []any and map[string]any;
// {"$t": type, "v": …} gives everything else.
type value struct{ v any }

func (v *value) UnmarshalJSON(data []byte) error {
	got, err := decodeValue(data)
	v.v = got
	return err
}

type tagged struct {
	Type string          `json:"$t"`
	V    json.RawMessage `json:"v"`
}

func decodeValue(data []byte) (any, error) {
	data = trimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("empty value")
	}
	switch data[0] {
	case '{':
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, err
		}
		if _, ok := fields["$t"]; ok {
			var t tagged
			if err := json.Unmarshal(data, &t); err != nil {
				return nil, err
			}
			return decodeTagged(t)
		}
		if _, ok := fields["$b64"]; ok {
			var t text
			err := t.UnmarshalJSON(data)
			return string(t), err
		}
		return decodeMap(fields)
	case '[':
		return decodeList(data)
	default:
		var v any
		err := json.Unmarshal(data, &v)
		return v, err
	}
}

func trimSpace(data []byte) []byte {
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\n' || data[0] == '\t' || data[0] == '\r') {
		data = data[1:]
	}
	return data
}

func decodeMap(fields map[string]json.RawMessage) (map[string]any, error) {
	m := make(map[string]any, len(fields))
	for k, raw := range fields {
		v, err := decodeValue(raw)
		if err != nil {
			return nil, err
		}
		m[k] = v
	}
	return m, nil
}

func decodeList(data []byte) ([]any, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return nil, err
	}
	list := make([]any, len(items))
	for i, raw := range items {
		v, err := decodeValue(raw)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

// scalarTypes are the types whose values are encoded as a string: {"$t": "int8", "v": "-4"}.
var scalarTypes = map[string]reflect.Type{
	"int": reflect.TypeFor[int](), "int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](),
	"int32": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](),
	"uint": reflect.TypeFor[uint](), "uint8": reflect.TypeFor[uint8](), "uint16": reflect.TypeFor[uint16](),
	"uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](), "uintptr": reflect.TypeFor[uintptr](),
	"float32": reflect.TypeFor[float32](), "float64": reflect.TypeFor[float64](),
	"complex128": reflect.TypeFor[complex128](),
	"string":     reflect.TypeFor[string](),
	"bool":       reflect.TypeFor[bool](),
	"duration":   reflect.TypeFor[time.Duration](),
}

// compositeTypes are slices and maps with a fixed element type: {"$t": "[]string", "v": ["a"]}.
// A null v gives the nil slice or map.
var compositeTypes = map[string]reflect.Type{
	"[]any": reflect.TypeFor[[]any](), "[]string": reflect.TypeFor[[]string](), "[]int": reflect.TypeFor[[]int](),
	"[]int64": reflect.TypeFor[[]int64](), "[]float64": reflect.TypeFor[[]float64](), "[]bool": reflect.TypeFor[[]bool](),
	"[]map": reflect.TypeFor[[]map[string]any](), "[][]string": reflect.TypeFor[[][]string](),
	"[2]int": reflect.TypeFor[[2]int](),
	"map":    reflect.TypeFor[map[string]any](), "map[string]string": reflect.TypeFor[map[string]string](),
	"map[string]int": reflect.TypeFor[map[string]int](), "map[string]bool": reflect.TypeFor[map[string]bool](),
	"map[string][]string": reflect.TypeFor[map[string][]string](),
	"values":              reflect.TypeFor[chartutil.Values](),
}

func decodeTagged(t tagged) (any, error) {
	if typ, ok := scalarTypes[t.Type]; ok {
		return decodeScalar(typ, t.V)
	}
	if typ, ok := compositeTypes[t.Type]; ok {
		v, err := decodeComposite(typ, t.V)
		if err != nil {
			return nil, err
		}
		return v.Interface(), nil
	}
	switch t.Type {
	case "bytes":
		var raw []byte
		err := json.Unmarshal(t.V, &raw)
		return raw, err
	case "number":
		var s string
		err := json.Unmarshal(t.V, &s)
		return json.Number(s), err
	case "error":
		var s string
		err := json.Unmarshal(t.V, &s)
		return errors.New(s), err
	case "nil-pointer":
		return (*string)(nil), nil
	case "pointer":
		v, err := decodeValue(t.V)
		if err != nil || v == nil {
			return nil, err
		}
		p := reflect.New(reflect.TypeOf(v))
		p.Elem().Set(reflect.ValueOf(v))
		return p.Interface(), nil
	case "map[any]any":
		var pairs [][2]json.RawMessage
		if err := json.Unmarshal(t.V, &pairs); err != nil {
			return nil, err
		}
		m := map[any]any{}
		for _, p := range pairs {
			k, err := decodeValue(p[0])
			if err != nil {
				return nil, err
			}
			if m[k], err = decodeValue(p[1]); err != nil {
				return nil, err
			}
		}
		return m, nil
	case "time":
		// v: {"unix": seconds, "nanos": …, "zone": name}
		var at struct {
			Unix  int64
			Nanos int64
			Zone  string
		}
		if err := json.Unmarshal(t.V, &at); err != nil {
			return nil, err
		}
		zone, err := time.LoadLocation(at.Zone)
		if err != nil {
			return nil, err
		}
		return time.Unix(at.Unix, at.Nanos).In(zone), nil
	case "semver":
		var s string
		if err := json.Unmarshal(t.V, &s); err != nil {
			return nil, err
		}
		return semver.NewVersion(s)
	}
	return nil, fmt.Errorf("unknown type %q", t.Type)
}

func decodeScalar(typ reflect.Type, raw json.RawMessage) (any, error) {
	v := reflect.New(typ).Elem()
	var s text
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", typ, err)
	}
	switch typ.Kind() {
	case reflect.Bool:
		v.SetBool(s == "true")
	case reflect.String:
		v.SetString(string(s))
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(string(s), typ.Bits())
		if err != nil && !math.IsInf(f, 0) {
			return nil, err
		}
		v.SetFloat(f)
	case reflect.Complex128:
		c, err := strconv.ParseComplex(string(s), 128)
		if err != nil {
			return nil, err
		}
		v.SetComplex(c)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n, err := strconv.ParseUint(string(s), 10, typ.Bits())
		if err != nil {
			return nil, err
		}
		v.SetUint(n)
	default:
		n, err := strconv.ParseInt(string(s), 10, typ.Bits())
		if err != nil {
			return nil, err
		}
		v.SetInt(n)
	}
	return v.Interface(), nil
}

func decodeComposite(typ reflect.Type, raw json.RawMessage) (reflect.Value, error) {
	out := reflect.New(typ).Elem()
	if string(trimSpace(raw)) == "null" {
		return out, nil
	}
	element := func(raw json.RawMessage) (reflect.Value, error) {
		e := reflect.New(typ.Elem()).Elem()
		if typ.Elem().Kind() == reflect.Interface || typ.Elem() == reflect.TypeFor[map[string]any]() {
			v, err := decodeValue(raw)
			if err == nil && v != nil {
				e.Set(reflect.ValueOf(v))
			}
			return e, err
		}
		return e, json.Unmarshal(raw, e.Addr().Interface())
	}
	switch typ.Kind() {
	case reflect.Map:
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			return out, err
		}
		out.Set(reflect.MakeMap(typ))
		for k, r := range fields {
			e, err := element(r)
			if err != nil {
				return out, err
			}
			out.SetMapIndex(reflect.ValueOf(k), e)
		}
	default:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return out, err
		}
		if typ.Kind() == reflect.Slice {
			out.Set(reflect.MakeSlice(typ, len(items), len(items)))
		}
		for i := range min(len(items), out.Len()) {
			e, err := element(items[i])
			if err != nil {
				return out, err
			}
			out.Index(i).Set(e)
		}
	}
	return out, nil
}

// encode encodes a Go value so that its type is preserved: the inverse of decodeValue.
func encode(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return text(v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 && !(v == 0 && math.Signbit(v)) {
			return v
		}
		return tag("float64", strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		if v == nil {
			return tag("[]any", nil)
		}
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = encode(e)
		}
		return list
	case map[string]any:
		if v == nil {
			return tag("map", nil)
		}
		m := encodeMap(v)
		if _, clash := v["$t"]; clash {
			return tag("map", m)
		}
		if _, clash := v["$b64"]; clash {
			return tag("map", m)
		}
		return m
	case chartutil.Values:
		return tag("values", encodeMap(v))
	case json.Number:
		return tag("number", string(v))
	case []byte:
		return tag("bytes", v)
	case error:
		return tag("error", text(v.Error()))
	case time.Time:
		return tag("time", v.Format(time.RFC3339Nano))
	}
	rv := reflect.ValueOf(v)
	name := rv.Type().String()
	switch rv.Kind() {
	case reflect.Slice, reflect.Array:
		list := make([]any, rv.Len())
		for i := range list {
			list[i] = encode(rv.Index(i).Interface())
		}
		return tag(name, list)
	case reflect.Map:
		if rv.Type().Key().Kind() == reflect.String {
			m := map[string]any{}
			for _, k := range rv.MapKeys() {
				m[k.String()] = encode(rv.MapIndex(k).Interface())
			}
			return tag(name, m)
		}
	}
	return tag(name, text(fmt.Sprint(v)))
}

func encodeMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, e := range m {
		out[k] = encode(e)
	}
	return out
}

func tag(typ string, v any) any {
	return map[string]any{"$t": typ, "v": v}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
