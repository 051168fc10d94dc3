package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
)

func init() {
	register("crd", validCRD)
	register("cr", throughCRD)
}

type crdRequest struct {
	CRD json.RawMessage `json:"crd"`
	// Old, if given, makes the request an update.
	Old json.RawMessage `json:"old"`
}

// validCRD returns the result of creating or updating the CRD.
func validCRD(request *crdRequest) (any, error) {
	crd, err := decodeCRD(request.CRD)
	if err != nil {
		return nil, err
	}
	strategy := customresourcedefinition.NewStrategy(apiextensionsapiserver.Scheme)
	ctx := genericrequest.WithNamespace(context.Background(), "")
	var errs field.ErrorList
	var warnings []string
	if len(request.Old) > 0 {
		old, err := decodeCRD(request.Old)
		if err != nil {
			return nil, err
		}
		strategy.PrepareForCreate(ctx, old)
		strategy.PrepareForUpdate(ctx, crd, old)
		errs, warnings = strategy.ValidateUpdate(ctx, crd, old), strategy.WarningsOnUpdate(ctx, crd, old)
	} else {
		strategy.PrepareForCreate(ctx, crd)
		errs, warnings = strategy.Validate(ctx, crd), strategy.WarningsOnCreate(ctx, crd)
	}
	if warnings == nil {
		warnings = []string{}
	}
	shown := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsapiserver.Scheme.Convert(crd, shown, nil); err != nil {
		return nil, err
	}
	return map[string]any{"errors": fieldErrors(errs), "warnings": warnings, "object": shown}, nil
}

func decodeCRD(text []byte) (*apiextensions.CustomResourceDefinition, error) {
	gvk := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	object, _, err := apiextensionsapiserver.Codecs.UniversalDeserializer().Decode(text, &gvk, nil)
	if err != nil {
		return nil, err
	}
	apiextensionsapiserver.Scheme.Default(object)
	crd := &apiextensions.CustomResourceDefinition{}
	return crd, apiextensionsapiserver.Scheme.Convert(object, crd, nil)
}

// custom is a CRD prepared for serving.
type custom struct {
	versions map[string]*customVersion
	storage  string
	types    managedfields.TypeConverter
}

type customVersion struct {
	gvk        schema.GroupVersionKind
	structural *structuralschema.Structural
	strategy   crStrategy
}

// crStrategy is the part used here of the server's strategy for custom resources.
type crStrategy interface {
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

// lastCustom caches the compiled CRD for consecutive requests on the same one.
var lastCustom struct {
	text   string
	custom *custom
	err    error
}

func customResource(text []byte) (*custom, error) {
	if lastCustom.text != string(text) {
		lastCustom.custom, lastCustom.err = newCustom(text)
		lastCustom.text = string(text)
	}
	return lastCustom.custom, lastCustom.err
}

func newCustom(text []byte) (*custom, error) {
	internal, err := decodeCRD(text)
	if err != nil {
		return nil, requestError{err}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsapiserver.Scheme.Convert(internal, crd, nil); err != nil {
		return nil, err
	}
	made := &custom{versions: map[string]*customVersion{}}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Storage {
			made.storage = v.Name
		}
		if made.versions[v.Name], err = newCustomVersion(crd, v); err != nil {
			return nil, err
		}
	}
	made.types, err = customTypes(crd)
	return made, err
}

func newCustomVersion(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) (*customVersion, error) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("version %s has no schema", v.Name)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	// The CRD shares the defaults: pruning them must not change it.
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
	var status *apiextensions.CustomResourceSubresourceStatus
	var scale *apiextensions.CustomResourceSubresourceScale
	if v.Subresources != nil && v.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		scale = &apiextensions.CustomResourceSubresourceScale{}
		if err := apiextensionsv1.Convert_v1_CustomResourceSubresourceScale_To_apiextensions_CustomResourceSubresourceScale(v.Subresources.Scale, scale, nil); err != nil {
			return nil, err
		}
	}
	strategy := customresource.NewStrategy(plainObjects{}, crd.Spec.Scope == apiextensionsv1.NamespaceScoped, gvk,
		validator, nil, structural, status, scale, v.SelectableFields)
	return &customVersion{gvk, structural, strategy}, nil
}

// customTypes builds the type converter for server-side apply of the custom resource.
func customTypes(crd *apiextensionsv1.CustomResourceDefinition) (managedfields.TypeConverter, error) {
	models, err := builtinModels()
	if err != nil {
		return nil, err
	}
	specs := []*spec3.OpenAPI{{
		Version:    "3.0.0",
		Info:       &spec.Info{InfoProps: spec.InfoProps{Title: "oracle", Version: "1"}},
		Components: &spec3.Components{Schemas: models},
	}}
	for _, v := range crd.Spec.Versions {
		s, err := builder.BuildOpenAPIV3(crd, v.Name, builder.Options{})
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(merged.Components.Schemas, crd.Spec.PreserveUnknownFields)
}

func (c *custom) version(name string) (*customVersion, error) {
	if name == "" {
		name = c.storage
	}
	if version := c.versions[name]; version != nil {
		return version, nil
	}
	return nil, requestError{fmt.Errorf("no version %q", name)}
}

type crRequest struct {
	CRD     json.RawMessage `json:"crd"`
	Version string          `json:"version"`
	Objects []struct {
		Object json.RawMessage `json:"object"`
		// Old, if given, makes the request an update.
		Old json.RawMessage `json:"old"`
	} `json:"objects"`
}

type crOutcome struct {
	// DecodeError is the error that rejects the request before validation.
	DecodeError string   `json:"decodeError,omitempty"`
	Unknown     []string `json:"unknown,omitempty"`
	// Strict lists duplicate fields.
	Strict    []string       `json:"strict,omitempty"`
	Pruned    map[string]any `json:"pruned,omitempty"`
	Defaulted map[string]any `json:"defaulted,omitempty"`
	Errors    []fieldError   `json:"errors"`
}

// throughCRD decodes, prunes, defaults and validates objects.
func throughCRD(request *crRequest) (any, error) {
	custom, err := customResource(request.CRD)
	if err != nil {
		return nil, err
	}
	version, err := custom.version(request.Version)
	if err != nil {
		return nil, err
	}
	outcomes := []crOutcome{}
	for _, item := range request.Objects {
		outcome, object := version.decode(item.Object)
		if outcome.DecodeError != "" {
			outcomes = append(outcomes, outcome)
			continue
		}
		ctx := context.Background()
		var errs field.ErrorList
		if len(item.Old) > 0 {
			oldOutcome, old := version.decode(item.Old)
			if oldOutcome.DecodeError != "" {
				return nil, requestError{errors.New(oldOutcome.DecodeError)}
			}
			errs = version.strategy.ValidateUpdate(ctx, object, old)
		} else {
			errs = version.strategy.Validate(ctx, object)
		}
		outcome.Errors = fieldErrors(errs)
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

// decode decodes a request body as the server's decoder for custom resources does.
func (v *customVersion) decode(text []byte) (crOutcome, *unstructured.Unstructured) {
	outcome := crOutcome{Errors: []fieldError{}}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	refuse := func(err error) (crOutcome, *unstructured.Unstructured) {
		outcome.DecodeError = err.Error()
		return outcome, nil
	}
	strict, err := kjson.UnmarshalStrict(text, &object.Object)
	if err != nil {
		return refuse(err)
	}
	outcome.Strict = texts(strict)

	apiVersion, kind := object.GetAPIVersion(), object.GetKind()
	metadata, hasMetadata, unknown, err := objectmeta.GetObjectMetaWithOptions(object.Object,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return refuse(err)
	}
	unknown = append(unknown, pruning.PruneWithOptions(object.Object, v.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, v.structural)
	coerceErr, paths := objectmeta.CoerceWithOptions(nil, object.Object, v.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if coerceErr != nil {
		return refuse(coerceErr)
	}
	object.SetKind(kind)
	object.SetAPIVersion(apiVersion)
	if hasMetadata {
		if err := objectmeta.SetObjectMeta(object.Object, metadata); err != nil {
			return refuse(err)
		}
	}
	outcome.Unknown = append(unknown, paths...)
	sort.Strings(outcome.Unknown)
	outcome.Pruned = runtime.DeepCopyJSON(object.Object)
	defaulting.Default(object.Object, v.structural)
	outcome.Defaulted = runtime.DeepCopyJSON(object.Object)
	return outcome, object
}

// plainObjects creates, converts, defaults and names objects that have no Go type.
type plainObjects struct {
	defaults *structuralschema.Structural
	kind     schema.GroupVersionKind
}

func (plainObjects) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(gvk)
	return object, nil
}

func (plainObjects) Convert(in, out, _ any) error { return errors.New("not needed") }

// ConvertToVersion changes only the version: conversion strategy None.
func (plainObjects) ConvertToVersion(in runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	target, ok := to.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk})
	if !ok || target == gvk {
		return in, nil
	}
	out := in.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(target)
	return out, nil
}

func (plainObjects) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (p plainObjects) Default(in runtime.Object) {
	if object, ok := in.(*unstructured.Unstructured); ok && p.defaults != nil && object.GroupVersionKind() == p.kind {
		defaulting.Default(object.Object, p.defaults)
	}
}

func (plainObjects) ObjectKinds(object runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{object.GetObjectKind().GroupVersionKind()}, false, nil
}

func (plainObjects) Recognizes(schema.GroupVersionKind) bool { return true }
