package main

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	kcel "k8s.io/apiserver/pkg/cel"
)

// celValue encodes a value unambiguously: a value without a JSON form becomes an object keyed by the name of its type.
func celValue(value ref.Val) any {
	as := func(kind string, content any) any { return map[string]any{kind: content} }
	switch v := value.(type) {
	case types.Null:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Uint:
		return as("uint", uint64(v))
	case types.Double:
		return as("double", strconv.FormatFloat(float64(v), 'g', -1, 64))
	case types.String:
		return string(v)
	case types.Bytes:
		return as("bytes", base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return as("timestamp", v.ConvertToType(types.StringType).Value())
	case types.Duration:
		return as("duration", int64(v.Duration))
	case *types.Optional:
		if !v.HasValue() {
			return as("optional", []any{})
		}
		return as("optional", []any{celValue(v.GetValue())})
	case ref.Type:
		return as("type", v.TypeName())
	case kcel.Quantity:
		return as("quantity", canonical(*v.Quantity))
	case *kcel.Quantity:
		return as("quantity", canonical(*v.Quantity))
	case kcel.URL:
		return as("url", v.URL.String())
	case kcel.IP:
		return as("ip", v.Addr.String())
	case kcel.CIDR:
		return as("cidr", v.Prefix.String())
	case kcel.Semver:
		v.Version.Build = nil // Versions that differ only in build metadata are equal.
		return as("semver", v.Version.String())
	case traits.Mapper:
		entries := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries[fmt.Sprintf("%s %v", key.Type().TypeName(), key.Value())] = celValue(v.Get(key))
		}
		return as("map", entries)
	case traits.Lister:
		items := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, celValue(it.Next()))
		}
		return items
	}
	return as("go", fmt.Sprint(value.Value()))
}

// canonical formats a quantity in its canonical form, instead of the text that it was parsed from.
func canonical(quantity resource.Quantity) string {
	computed := quantity.DeepCopy()
	computed.Add(resource.Quantity{Format: quantity.Format})
	return computed.String()
}
