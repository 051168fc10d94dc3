package main

import (
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"
)

func init() {
	register("patch.json", jsonPatch)
	register("patch.merge", mergePatch)
	register("patch.strategic", strategicPatch)
	register("patch.strategic.twoWay", strategicTwoWay)
	register("patch.strategic.threeWay", strategicThreeWay)
	register("patch.merge.threeWay", mergeThreeWay)
}

type patchRequest struct {
	// Kind is group/version/Kind ("v1/Pod", "apps/v1/Deployment"); strategic patches only.
	Kind     string          `json:"kind"`
	Original json.RawMessage `json:"original"`
	// Patch is the patch; PatchText is a patch that is not JSON.
	Patch     json.RawMessage `json:"patch"`
	PatchText *string         `json:"patchText"`

	Modified json.RawMessage `json:"modified"`
	Current  json.RawMessage `json:"current"`
	// Overwrite makes a three-way patch overwrite conflicts.
	Overwrite bool `json:"overwrite"`
}

func (r *patchRequest) patch() []byte {
	if r.PatchText != nil {
		return []byte(*r.PatchText)
	}
	return r.Patch
}

// patchAnswer distinguishes errors that the server answers with 400 from those it answers with 422.
type patchAnswer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Status int             `json:"status"`
	Error  string          `json:"error,omitempty"`
	// Strict lists the errors of strict decoding of the patch.
	Strict []string `json:"strict,omitempty"`
}

func jsonPatch(request *patchRequest) (any, error) {
	var operations []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from"`
		Value any    `json:"value"`
	}
	strict, err := kjson.UnmarshalStrict(request.patch(), &operations)
	if err != nil {
		return patchAnswer{Status: 400, Error: fmt.Sprintf("error decoding patch: %v", err)}, nil
	}
	patch, err := jsonpatch.DecodePatch(request.patch())
	if err != nil {
		return patchAnswer{Status: 400, Error: err.Error()}, nil
	}
	result, err := patch.Apply(request.Original)
	if err != nil {
		return patchAnswer{Status: 422, Error: err.Error()}, nil
	}
	return patchAnswer{Status: 200, Result: result, Strict: texts(strict)}, nil
}

func mergePatch(request *patchRequest) (any, error) {
	decoded := map[string]any{}
	strict, err := kjson.UnmarshalStrict(request.patch(), &decoded)
	if err != nil {
		return patchAnswer{Status: 400, Error: fmt.Sprintf("error decoding patch: %v", err)}, nil
	}
	result, err := jsonpatch.MergePatch(request.Original, request.patch())
	switch {
	case errors.Is(err, jsonpatch.ErrBadJSONPatch):
		return patchAnswer{Status: 400, Error: err.Error()}, nil
	case err != nil:
		return patchAnswer{Status: 500, Error: err.Error()}, nil
	}
	return patchAnswer{Status: 200, Result: result, Strict: texts(strict)}, nil
}

func mergeThreeWay(request *patchRequest) (any, error) {
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(request.Original, request.Modified, request.Current)
	return json.RawMessage(patch), err
}

// strategicPatch works on maps, as the server does, and leaves the result unconverted.
func strategicPatch(request *patchRequest) (any, error) {
	sample, err := typed(request.Kind)
	if err != nil {
		return nil, requestError{err}
	}
	original := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.Original, &original); err != nil {
		return nil, requestError{err}
	}
	patch := map[string]any{}
	strict, err := kjson.UnmarshalStrict(request.patch(), &patch)
	if err != nil {
		return patchAnswer{Status: 400, Error: err.Error()}, nil
	}
	result, err := strategicpatch.StrategicMergeMapPatch(original, patch, sample)
	if err != nil {
		return patchAnswer{Status: 422, Error: err.Error()}, nil
	}
	text, err := json.Marshal(result)
	return patchAnswer{Status: 200, Result: text, Strict: texts(strict)}, err
}

func strategicTwoWay(request *patchRequest) (any, error) {
	sample, err := typed(request.Kind)
	if err != nil {
		return nil, requestError{err}
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(request.Original, request.Modified, sample)
	return json.RawMessage(patch), err
}

func strategicThreeWay(request *patchRequest) (any, error) {
	sample, err := typed(request.Kind)
	if err != nil {
		return nil, requestError{err}
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(sample)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(request.Original, request.Modified, request.Current, meta, request.Overwrite)
	return json.RawMessage(patch), err
}

// parseKind parses "group/version/Kind" and "version/Kind".
func parseKind(text string) (schema.GroupVersionKind, error) {
	var gvk schema.GroupVersionKind
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '/' {
			gv, err := schema.ParseGroupVersion(text[:i])
			return gv.WithKind(text[i+1:]), err
		}
	}
	return gvk, fmt.Errorf("%q is not group/version/Kind", text)
}

// typed returns an empty object of a built-in kind.
func typed(kind string) (runtime.Object, error) {
	gvk, err := parseKind(kind)
	if err != nil {
		return nil, err
	}
	return legacyscheme.Scheme.New(gvk)
}

func texts(errs []error) []string {
	var found []string
	for _, err := range errs {
		found = append(found, err.Error())
	}
	return found
}
