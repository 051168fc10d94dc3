package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

// opYAML reads and writes YAML as sigs.k8s.io/yaml does.
func opYAML(r *request) (any, error) {
	var q struct {
		// Do is to-json, to-json-strict, unmarshal, unmarshal-strict, read-values, marshal, pretty, from-json or
		// goyaml (gopkg yaml.v3 straight, as toYamlPretty's peer reads).
		Do    string
		Text  text
		Value value
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	in := []byte(q.Text)
	switch q.Do {
	case "to-json":
		return result(yaml.YAMLToJSON(in))
	case "to-json-strict":
		return result(yaml.YAMLToJSONStrict(in))
	case "unmarshal", "unmarshal-strict":
		var v any
		unmarshal := yaml.Unmarshal
		if q.Do == "unmarshal-strict" {
			unmarshal = yaml.UnmarshalStrict
		}
		if err := unmarshal(in, &v); err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(v)}, nil
	case "unmarshal-map":
		m := map[string]any{}
		if err := yaml.Unmarshal(in, &m); err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(m)}, nil
	case "read-values":
		v, err := chartutil.ReadValues(in)
		if err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(v)}, nil
	case "marshal":
		return result(yaml.Marshal(q.Value.v))
	case "pretty":
		var buf bytes.Buffer
		enc := goyaml.NewEncoder(&buf)
		enc.SetIndent(2)
		err := enc.Encode(q.Value.v)
		return result(buf.Bytes(), err)
	case "from-json":
		return result(yaml.JSONToYAML(in))
	case "round-trip":
		j, err := yaml.YAMLToJSON(in)
		if err != nil {
			return nil, err
		}
		return result(yaml.JSONToYAML(j))
	}
	return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
}

// opJSON reads and writes JSON as encoding/json does.
func opJSON(r *request) (any, error) {
	var q struct {
		// Do is decode, encode (HTML escaped), raw (not escaped) or pretty.
		Do    string
		Text  text
		Value value
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	switch q.Do {
	case "decode":
		var v any
		if err := json.Unmarshal([]byte(q.Text), &v); err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(v)}, nil
	case "encode":
		return result(json.Marshal(q.Value.v))
	case "raw":
		b, err := marshal(q.Value.v)
		return result(bytes.TrimSuffix(b, []byte("\n")), err)
	case "pretty":
		return result(json.MarshalIndent(q.Value.v, "", "  "))
	}
	return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
}

// opTOML reads and writes TOML as Helm's functions do.
func opTOML(r *request) (any, error) {
	var q struct {
		// Do is decode or encode.
		Do    string
		Text  text
		Value value
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	switch q.Do {
	case "decode":
		m := map[string]any{}
		if err := toml.Unmarshal([]byte(q.Text), &m); err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(m)}, nil
	case "encode":
		var buf bytes.Buffer
		err := toml.NewEncoder(&buf).Encode(q.Value.v)
		return result(buf.Bytes(), err)
	}
	return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
}

func result(b []byte, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return text(b), nil
}

// opStrvals parses the values of --set and related flags.
func opStrvals(r *request) (any, error) {
	var q struct {
		// Do is set, string, json, file, literal or to-yaml.
		Do string
		// Text is parsed into Into; Texts are parsed in order.
		Text  text
		Texts []text
		Into  *value
		// Files are the files for --set-file; a missing one is an error with the operating system's message.
		Files map[string]text
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	dest := map[string]any{}
	if q.Into != nil {
		m, ok := q.Into.v.(map[string]any)
		if !ok {
			return nil, badRequest{fmt.Errorf("into is a %T", q.Into.v)}
		}
		dest = m
	}
	if q.Do == "to-yaml" {
		s, err := strvals.ToYAML(string(q.Text))
		if err != nil {
			return nil, err
		}
		return text(s), nil
	}
	if q.Texts == nil {
		q.Texts = []text{q.Text}
	}
	for _, s := range q.Texts {
		var err error
		switch q.Do {
		case "set":
			err = strvals.ParseInto(string(s), dest)
		case "string":
			err = strvals.ParseIntoString(string(s), dest)
		case "json":
			err = strvals.ParseJSON(string(s), dest)
		case "literal":
			err = strvals.ParseLiteralInto(string(s), dest)
		case "file":
			err = strvals.ParseIntoFile(string(s), dest, func(rs []rune) (any, error) {
				content, ok := q.Files[string(rs)]
				if !ok {
					return nil, fmt.Errorf("open %s: no such file or directory", string(rs))
				}
				return string(content), nil
			})
		default:
			return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
		}
		if err != nil {
			return nil, kindError{err, "error", encode(dest)}
		}
	}
	return map[string]any{"value": encode(dest)}, nil
}

// opSemver parses versions and checks constraints.
func opSemver(r *request) (any, error) {
	var q struct {
		Version text
		// Other, if given, is compared with Version.
		Other *text
		// Constraint, if given, is checked against Version.
		Constraint *text
		// Strict uses StrictNewVersion.
		Strict bool
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	parse := semver.NewVersion
	if q.Strict {
		parse = semver.StrictNewVersion
	}
	out := map[string]any{}
	if q.Constraint != nil {
		c, err := semver.NewConstraint(string(*q.Constraint))
		if err != nil {
			return nil, kindError{err, "constraint", nil}
		}
		out["constraint"] = text(c.String())
		v, err := parse(string(q.Version))
		if err != nil {
			return nil, kindError{err, "version", nil}
		}
		ok, reasons := c.Validate(v)
		why := []text{}
		for _, e := range reasons {
			why = append(why, text(e.Error()))
		}
		out["check"], out["valid"], out["reasons"] = c.Check(v), ok, why
	}
	v, err := parse(string(q.Version))
	if err != nil {
		return nil, kindError{err, "version", nil}
	}
	out["string"], out["original"] = text(v.String()), text(v.Original())
	out["parts"] = []any{fmt.Sprint(v.Major()), fmt.Sprint(v.Minor()), fmt.Sprint(v.Patch()), text(v.Prerelease()), text(v.Metadata())}
	if q.Other != nil {
		o, err := parse(string(*q.Other))
		if err != nil {
			return nil, kindError{err, "other", nil}
		}
		out["compare"] = v.Compare(o)
	}
	return out, nil
}

// opKubeVersion parses --kube-version and checks the constraint of Chart.yaml.
func opKubeVersion(r *request) (any, error) {
	var q struct {
		Version    string
		Constraint *string
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	v, err := chartutil.ParseKubeVersion(q.Version)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"version": text(v.Version), "major": v.Major, "minor": v.Minor}
	if q.Constraint != nil {
		out["compatible"] = chartutil.IsCompatibleRange(*q.Constraint, v.Version)
	}
	return out, nil
}

// opCapabilities returns the capabilities that templates get without a cluster.
func opCapabilities(*request) (any, error) {
	c := chartutil.DefaultCapabilities
	return map[string]any{
		"kubeVersion": c.KubeVersion, "apiVersions": c.APIVersions, "helmVersion": c.HelmVersion,
		"helmString": strings.TrimSpace(fmt.Sprintf("%v", c.HelmVersion)),
	}, nil
}
