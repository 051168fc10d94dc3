package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
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
	// Vars are of type dyn; rules over a schema go through the operation cr instead.
	Vars map[string]json.RawMessage `json:"vars"`
}

// celEnvironments keeps one environment per set of variable names.
var celEnvironments sync.Map

func celEnvironment(names []string) (*cel.Env, error) {
	key := strings.Join(names, ",")
	if known, ok := celEnvironments.Load(key); ok {
		return known.(*cel.Env), nil
	}
	version := environment.DefaultCompatibilityVersion()
	var variables []cel.EnvOption
	for _, name := range names {
		variables = append(variables, cel.Variable(name, cel.DynType))
	}
	set, err := environment.MustBaseEnvSet(version).Extend(environment.VersionedOptions{
		IntroducedVersion: version, EnvOptions: variables,
	})
	if err != nil {
		return nil, err
	}
	env := set.NewExpressionsEnv()
	celEnvironments.Store(key, env)
	return env, nil
}

// evaluate runs one expression in the environment that rules get.
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
	env, err := celEnvironment(names)
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
	value, details, err := program.Eval(vars)
	if details != nil && details.ActualCost() != nil {
		result["cost"] = *details.ActualCost()
	}
	if err != nil {
		result["evalError"] = err.Error()
		return result, nil
	}
	result["type"] = value.Type().TypeName()
	text, err := celJSON(value)
	if err != nil {
		result["unwritable"] = err.Error()
		result["go"] = fmt.Sprint(value.Value())
		return result, nil
	}
	result["value"] = text
	return result, nil
}

func celJSON(value ref.Val) (json.RawMessage, error) {
	native, err := value.ConvertToNative(jsonType)
	if err != nil {
		return nil, err
	}
	message, ok := native.(*structpb.Value)
	if !ok {
		return nil, errors.New("not a JSON value")
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	// protojson spaces its output at random.
	var compact any
	if err := json.Unmarshal(text, &compact); err != nil {
		return nil, err
	}
	return json.Marshal(compact)
}

var jsonType = reflect.TypeFor[*structpb.Value]()
