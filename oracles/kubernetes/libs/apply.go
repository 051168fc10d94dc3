package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/kubernetes/scheme"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/controlplane" // registers every built-in group
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func init() {
	register("apply", applySequence)
}

type applyRequest struct {
	// Kind is a built-in kind ("apps/v1/Deployment"); CRD defines a custom one instead.
	Kind string          `json:"kind"`
	CRD  json.RawMessage `json:"crd"`
	// Version is the CRD version that requests use (default: the storage version).
	Version string `json:"version"`
	// Typed decodes a built-in kind into its Go type with defaulting, as the server does. Without it
	// the objects stay as sent, so that the result shows the merge alone.
	Typed bool `json:"typed"`
	// Reset lists top-level fields that the strategy resets in requests ("status").
	Reset []string `json:"reset"`
	// Live is the initial object (default: an empty one).
	Live  json.RawMessage `json:"live"`
	Steps []applyStep     `json:"steps"`
}

type applyStep struct {
	// Do is apply or update.
	Do          string          `json:"do"`
	Manager     string          `json:"manager"`
	Force       bool            `json:"force"`
	Subresource string          `json:"subresource"`
	Object      json.RawMessage `json:"object"`
}

type applyOutcome struct {
	Object        any            `json:"object,omitempty"`
	ManagedFields []managedEntry `json:"managedFields,omitempty"`
	Error         string         `json:"error,omitempty"`
	Causes        []statusCause  `json:"causes,omitempty"`
	Code          int32          `json:"code,omitempty"`
	Reason        string         `json:"reason,omitempty"`
}

type statusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

// managedEntry is a managedFields entry without its time.
type managedEntry struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	APIVersion  string `json:"apiVersion"`
	FieldsV1    any    `json:"fieldsV1"`
	Subresource string `json:"subresource,omitempty"`
}

// target is the kind that a sequence works on: its field managers by subresource, and how to decode its objects.
type target struct {
	managers func(subresource string) (*managedfields.FieldManager, error)
	empty    func() (runtime.Object, error)
	decode   func([]byte) (runtime.Object, error)
}

func applySequence(request *applyRequest) (any, error) {
	target, err := request.target()
	if err != nil {
		return nil, err
	}
	live, err := target.empty()
	if err != nil {
		return nil, err
	}
	if len(request.Live) > 0 {
		if live, err = target.decode(request.Live); err != nil {
			return nil, requestError{err}
		}
	}
	outcomes := []applyOutcome{}
	for _, step := range request.Steps {
		next, err := target.step(live, step)
		if err != nil {
			outcomes = append(outcomes, failure(err))
			continue
		}
		live = next
		outcome, err := success(live)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

func (t *target) step(live runtime.Object, step applyStep) (runtime.Object, error) {
	manager, err := t.managers(step.Subresource)
	if err != nil {
		return nil, err
	}
	// Field managers may modify their arguments.
	live = live.DeepCopyObject()
	switch step.Do {
	case "apply":
		applied := &unstructured.Unstructured{Object: map[string]any{}}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(step.Object, &applied.Object); err != nil {
			return nil, requestError{err}
		}
		return manager.Apply(live, applied, step.Manager, step.Force)
	case "update":
		updated, err := t.decode(step.Object)
		if err != nil {
			return nil, err
		}
		return manager.Update(live, updated, step.Manager)
	default:
		return nil, requestError{fmt.Errorf("unknown step %q", step.Do)}
	}
}

func (r *applyRequest) target() (*target, error) {
	if len(r.CRD) > 0 {
		return r.customTarget()
	}
	gvk, err := parseKind(r.Kind)
	if err != nil {
		return nil, requestError{err}
	}
	converter, err := builtinTypes()
	if err != nil {
		return nil, err
	}
	t := &target{}
	if r.Typed {
		t.managers = func(subresource string) (*managedfields.FieldManager, error) {
			return managedfields.NewDefaultFieldManager(converter, legacyscheme.Scheme, legacyscheme.Scheme, legacyscheme.Scheme,
				gvk, gvk.GroupVersion(), subresource, r.filters(gvk.GroupVersion(), subresource))
		}
		t.empty = func() (runtime.Object, error) {
			empty, err := legacyscheme.Scheme.New(gvk)
			if err == nil {
				empty.GetObjectKind().SetGroupVersionKind(gvk)
			}
			return empty, err
		}
		t.decode = func(text []byte) (runtime.Object, error) {
			object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(text, &gvk, nil)
			if err == nil {
				legacyscheme.Scheme.Default(object)
			}
			return object, err
		}
		return t, nil
	}
	t.managers = func(subresource string) (*managedfields.FieldManager, error) {
		return managedfields.NewDefaultFieldManager(converter, plainObjects{}, plainObjects{}, plainObjects{},
			gvk, gvk.GroupVersion(), subresource, r.filters(gvk.GroupVersion(), subresource))
	}
	t.empty = func() (runtime.Object, error) { return plainObjects{}.New(gvk) }
	t.decode = decodePlain
	return t, nil
}

func (r *applyRequest) customTarget() (*target, error) {
	custom, err := customResource(r.CRD)
	if err != nil {
		return nil, err
	}
	version, err := custom.version(r.Version)
	if err != nil {
		return nil, err
	}
	objects := plainObjects{defaults: version.structural, kind: version.gvk}
	return &target{
		managers: func(subresource string) (*managedfields.FieldManager, error) {
			return managedfields.NewDefaultCRDFieldManager(custom.types, objects, objects, objects,
				version.gvk, version.gvk.GroupVersion(), subresource, r.filters(version.gvk.GroupVersion(), subresource))
		},
		empty:  func() (runtime.Object, error) { return objects.New(version.gvk) },
		decode: decodePlain,
	}, nil
}

// filters returns the fields that the strategy of the main resource, or of the status, resets.
func (r *applyRequest) filters(gv schema.GroupVersion, subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	if len(r.Reset) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	if subresource == "" {
		for _, field := range r.Reset {
			set.Insert(fieldpath.MakePathOrDie(field))
		}
	} else {
		set.Insert(fieldpath.MakePathOrDie("spec"))
		set.Insert(fieldpath.MakePathOrDie("metadata", "labels"))
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(gv.String()): fieldpath.NewExcludeSetFilter(set),
	}
}

func success(live runtime.Object) (applyOutcome, error) {
	accessor, err := meta.Accessor(live)
	if err != nil {
		return applyOutcome{}, err
	}
	outcome := applyOutcome{ManagedFields: []managedEntry{}}
	for _, entry := range accessor.GetManagedFields() {
		var fields any
		if entry.FieldsV1 != nil {
			if err := json.Unmarshal(entry.FieldsV1.Raw, &fields); err != nil {
				return outcome, err
			}
		}
		outcome.ManagedFields = append(outcome.ManagedFields, managedEntry{
			entry.Manager, string(entry.Operation), entry.APIVersion, fields, entry.Subresource,
		})
	}
	shown := live.DeepCopyObject()
	if accessor, err = meta.Accessor(shown); err != nil {
		return outcome, err
	}
	accessor.SetManagedFields(nil)
	outcome.Object = shown
	return outcome, nil
}

func failure(err error) applyOutcome {
	outcome := applyOutcome{Error: err.Error()}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		s := status.Status()
		outcome.Code, outcome.Reason = s.Code, string(s.Reason)
		if s.Details != nil {
			for _, cause := range s.Details.Causes {
				outcome.Causes = append(outcome.Causes, statusCause{string(cause.Type), cause.Message, cause.Field})
			}
		}
	}
	return outcome
}

// builtinModels are the OpenAPI definitions that the server builds its type converter from.
var builtinModels = sync.OnceValues(func() (map[string]*spec.Schema, error) {
	definitions := utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapi.NewDefinitionNamer(legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme)
	config := genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	var names []string
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !legacyscheme.Scheme.Recognizes(gvk) {
			continue
		}
		sample, err := legacyscheme.Scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		name := util.GetCanonicalTypeName(sample)
		if _, known := config.Definitions[name]; known {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return builder3.BuildOpenAPIDefinitionsForResources(config, names...)
})

var builtinTypes = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	models, err := builtinModels()
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(models, false)
})

func decodePlain(text []byte) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	return object, kjson.UnmarshalCaseSensitivePreserveInts(text, &object.Object)
}
