package main

import (
	"sort"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func init() {
	register("labels", labelSelector)
	register("labels.object", labelSelectorObject)
	register("fields", fieldSelector)
}

type selectorRequest struct {
	Selector string              `json:"selector"`
	Sets     []map[string]string `json:"sets"`
}

// labelSelector parses a selector and returns which sets it matches.
func labelSelector(request *selectorRequest) (any, error) {
	selector, err := labels.Parse(request.Selector)
	if err != nil {
		return nil, err
	}
	requirements, selectable := selector.Requirements()
	type requirement struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	}
	found := []requirement{}
	for _, r := range requirements {
		found = append(found, requirement{r.Key(), string(r.Operator()), append([]string{}, r.ValuesUnsorted()...)})
	}
	// The values are a set: their order has no meaning.
	for i := range found {
		sort.Strings(found[i].Values)
	}
	matches := []bool{}
	for _, set := range request.Sets {
		matches = append(matches, selector.Matches(labels.Set(set)))
	}
	return map[string]any{
		"string": selector.String(), "empty": selector.Empty(), "selectable": selectable,
		"requirements": found, "matches": matches,
	}, nil
}

type selectorObjectRequest struct {
	Selector *metav1.LabelSelector `json:"selector"`
	Sets     []map[string]string   `json:"sets"`
}

// labelSelectorObject converts and validates a LabelSelector as used in objects.
func labelSelectorObject(request *selectorObjectRequest) (any, error) {
	problems := metavalidation.ValidateLabelSelector(request.Selector, metavalidation.LabelSelectorValidationOptions{}, field.NewPath("selector"))
	result := map[string]any{"problems": fieldErrors(problems)}
	selector, err := metav1.LabelSelectorAsSelector(request.Selector)
	if err != nil {
		result["error"] = err.Error()
		return result, nil
	}
	matches := []bool{}
	for _, set := range request.Sets {
		matches = append(matches, selector.Matches(labels.Set(set)))
	}
	result["string"], result["matches"] = selector.String(), matches
	result["formatted"] = metav1.FormatLabelSelector(request.Selector)
	return result, nil
}

// fieldSelector parses a field selector and returns which sets it matches.
func fieldSelector(request *selectorRequest) (any, error) {
	selector, err := fields.ParseSelector(request.Selector)
	if err != nil {
		return nil, err
	}
	type requirement struct {
		Field    string `json:"field"`
		Operator string `json:"operator"`
		Value    string `json:"value"`
	}
	found := []requirement{}
	for _, r := range selector.Requirements() {
		found = append(found, requirement{r.Field, string(r.Operator), r.Value})
	}
	matches := []bool{}
	for _, set := range request.Sets {
		matches = append(matches, selector.Matches(fields.Set(set)))
	}
	return map[string]any{
		"string": selector.String(), "empty": selector.Empty(), "requirements": found, "matches": matches,
	}, nil
}
