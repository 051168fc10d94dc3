package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	_ "time/tzdata" // same time zones on every machine, as in the API server

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	kjson "sigs.k8s.io/json"
)

func init() {
	register("cel", evaluate)
}

type celRequest struct {
	Expr string `json:"expr"`
	// Vars have the types below; for rules on a schema, use the operation cr instead.
	Vars map[string]json.RawMessage `json:"vars"`
	// Types are the types of variables, such as list(string); dyn for those that are not listed.
	Types map[string]string `json:"types"`
	// Sizes maps a path, such as names.@items, to the largest size there, for the cost estimate.
	Sizes map[string]uint64 `json:"sizes"`
}

// celEnvironments caches one environment per set of variables.
var celEnvironments sync.Map

func celEnvironment(names []string, declared map[string]string) (*cel.Env, error) {
	var key strings.Builder
	var variables []cel.EnvOption
	for _, name := range names {
		kind := cel.DynType
		if text, ok := declared[name]; ok {
			var rest string
			if kind, rest = celType(text); kind == nil || rest != "" {
				return nil, requestError{fmt.Errorf("no type: %s", text)}
			}
		}
		variables = append(variables, cel.Variable(name, kind))
		fmt.Fprintf(&key, "%s %s,", name, kind)
	}
	if known, ok := celEnvironments.Load(key.String()); ok {
		return known.(*cel.Env), nil
	}
	version := environment.DefaultCompatibilityVersion()
	set, err := environment.MustBaseEnvSet(version).Extend(environment.VersionedOptions{
		IntroducedVersion: version, EnvOptions: variables,
	})
	if err != nil {
		return nil, err
	}
	env := set.NewExpressionsEnv()
	celEnvironments.Store(key.String(), env)
	return env, nil
}

// celType parses a type in the form that CEL prints, and returns the rest of the text.
func celType(text string) (*cel.Type, string) {
	end := strings.IndexAny(text, "(,)")
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], text[end:]
	if !strings.HasPrefix(rest, "(") {
		simple := map[string]*cel.Type{
			"bool": cel.BoolType, "int": cel.IntType, "uint": cel.UintType, "double": cel.DoubleType,
			"string": cel.StringType, "bytes": cel.BytesType, "dyn": cel.DynType,
		}
		return simple[strings.TrimSpace(name)], rest
	}
	first, rest := celType(rest[1:])
	if first == nil {
		return nil, rest
	}
	var second *cel.Type
	if strings.HasPrefix(rest, ",") {
		if second, rest = celType(rest[1:]); second == nil {
			return nil, rest
		}
	}
	rest = strings.TrimPrefix(rest, ")")
	switch strings.TrimSpace(name) {
	case "list":
		return cel.ListType(first), rest
	case "map":
		return cel.MapType(first, second), rest
	}
	return nil, rest
}

// sizes estimates sizes from those that a request lists.
type sizes map[string]uint64

func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if most, ok := s[strings.Join(element.Path(), ".")]; ok {
		return &checker.SizeEstimate{Min: 0, Max: most}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// evaluate evaluates one expression in the environment that rules get.
func evaluate(request *celRequest) (any, error) {
	vars := map[string]any{}
	names := []string{}
	for name, text := range request.Vars {
		var value any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &value); err != nil {
			return nil, requestError{err}
		}
		vars[name] = value
		names = append(names, name)
	}
	sort.Strings(names)
	env, err := celEnvironment(names, request.Types)
	if err != nil {
		return nil, err
	}
	tree, issues := env.Compile(request.Expr)
	if issues != nil && issues.Err() != nil {
		return map[string]any{"compileError": issues.Err().Error()}, nil
	}
	program, err := env.Program(tree,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return map[string]any{"compileError": err.Error()}, nil
	}
	result := map[string]any{"outputType": tree.OutputType().String()}
	estimate, err := env.EstimateCost(tree, &library.CostEstimator{SizeEstimator: sizes(request.Sizes)})
	if err != nil {
		return nil, err
	}
	result["estimate"] = []uint64{estimate.Min, estimate.Max}
	value, details, err := program.Eval(vars)
	if details != nil && details.ActualCost() != nil {
		result["cost"] = *details.ActualCost()
	}
	if err != nil {
		result["evalError"] = err.Error()
		return result, nil
	}
	result["type"] = value.Type().TypeName()
	result["value"] = celValue(value)
	return result, nil
}
