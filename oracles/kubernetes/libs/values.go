package main

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func init() {
	register("quantity", quantity)
	register("quantity.pair", quantityPair)
	register("time", parseTime)
	register("humanDuration", humanDuration)
	register("intstr", intOrString)
	register("name", validName)
	register("metadata", validMetadata)
}

type quantityRequest struct {
	In string `json:"in"`
}

// quantity parses one quantity and describes it as every component sees it.
func quantity(request *quantityRequest) (any, error) {
	parsed, err := resource.ParseQuantity(request.In)
	if err != nil {
		return nil, err
	}
	// JSON decoding keeps the original text until the quantity is used in arithmetic.
	var decoded resource.Quantity
	text, _ := json.Marshal(request.In)
	if err := json.Unmarshal(text, &decoded); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"canonical": parsed.String(), "format": parsed.Format, "sign": parsed.Sign(),
		"value": parsed.Value(), "milliValue": parsed.MilliValue(), "isZero": parsed.IsZero(),
		"approximateFloat": fmt.Sprint(parsed.AsApproximateFloat64()), "json": json.RawMessage(encoded),
	}, nil
}

type quantityPairRequest struct {
	A string `json:"a"`
	B string `json:"b"`
}

func quantityPair(request *quantityPairRequest) (any, error) {
	a, err := resource.ParseQuantity(request.A)
	if err != nil {
		return nil, err
	}
	b, err := resource.ParseQuantity(request.B)
	if err != nil {
		return nil, err
	}
	sum, difference := a.DeepCopy(), a.DeepCopy()
	sum.Add(b)
	difference.Sub(b)
	return map[string]any{
		"cmp": a.Cmp(b), "equal": a.Equal(b), "sum": sum.String(), "difference": difference.String(),
	}, nil
}

type timeRequest struct {
	// Kind is Time, MicroTime or Duration.
	Kind string          `json:"kind"`
	In   json.RawMessage `json:"in"`
}

// parseTime decodes a JSON value as the kind and encodes it again.
func parseTime(request *timeRequest) (any, error) {
	var value any
	switch request.Kind {
	case "Time":
		value = new(metav1.Time)
	case "MicroTime":
		value = new(metav1.MicroTime)
	case "Duration":
		value = new(metav1.Duration)
	default:
		return nil, requestError{fmt.Errorf("unknown kind %q", request.Kind)}
	}
	if err := json.Unmarshal(request.In, value); err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	return json.RawMessage(text), err
}

type humanDurationRequest struct {
	Nanoseconds int64 `json:"nanoseconds"`
}

func humanDuration(request *humanDurationRequest) (any, error) {
	d := time.Duration(request.Nanoseconds)
	return map[string]string{"human": duration.HumanDuration(d), "short": duration.ShortHumanDuration(d), "go": d.String()}, nil
}

type intOrStringRequest struct {
	In      json.RawMessage `json:"in"`
	Total   int             `json:"total"`
	RoundUp bool            `json:"roundUp"`
}

func intOrString(request *intOrStringRequest) (any, error) {
	var value intstr.IntOrString
	if err := json.Unmarshal(request.In, &value); err != nil {
		return nil, err
	}
	result := map[string]any{"string": value.String(), "int": value.IntValue()}
	scaled, err := intstr.GetScaledValueFromIntOrPercent(&value, request.Total, request.RoundUp)
	if err != nil {
		result["scaledError"] = err.Error()
	} else {
		result["scaled"] = scaled
	}
	return result, nil
}

type nameRequest struct {
	// Rule is the name of the validation function.
	Rule string `json:"rule"`
	In   string `json:"in"`
}

var nameRules = map[string]func(string) []string{
	"IsQualifiedName":                  validation.IsQualifiedName,
	"IsValidLabelValue":                validation.IsValidLabelValue,
	"IsDNS1123Label":                   validation.IsDNS1123Label,
	"IsDNS1123Subdomain":               validation.IsDNS1123Subdomain,
	"IsDNS1123SubdomainWithUnderscore": validation.IsDNS1123SubdomainWithUnderscore,
	"IsDNS1035Label":                   validation.IsDNS1035Label,
	"IsWildcardDNS1123Subdomain":       validation.IsWildcardDNS1123Subdomain,
	"IsCIdentifier":                    validation.IsCIdentifier,
	"IsValidPortName":                  validation.IsValidPortName,
	"IsValidPercent":                   validation.IsValidPercent,
	"IsHTTPHeaderName":                 validation.IsHTTPHeaderName,
	"IsEnvVarName":                     validation.IsEnvVarName,
	"IsRelaxedEnvVarName":              validation.IsRelaxedEnvVarName,
	"IsConfigMapKey":                   validation.IsConfigMapKey,
	"NameIsDNSSubdomain":               func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, false) },
	"NameIsDNSLabel":                   func(s string) []string { return apivalidation.NameIsDNSLabel(s, false) },
	"NameIsDNS1035Label":               func(s string) []string { return apivalidation.NameIsDNS1035Label(s, false) },
	"IsFullyQualifiedName": func(s string) []string {
		return messages(validation.IsFullyQualifiedName(field.NewPath("x"), s))
	},
	"IsDomainPrefixedPath": func(s string) []string {
		return messages(validation.IsDomainPrefixedPath(field.NewPath("x"), s))
	},
	"IsDomainPrefixedKey": func(s string) []string {
		return messages(validation.IsDomainPrefixedKey(field.NewPath("x"), s))
	},
	"IsValidIP": func(s string) []string { return messages(validation.IsValidIP(field.NewPath("x"), s)) },
	"IsValidCIDR": func(s string) []string {
		return messages(validation.IsValidCIDR(field.NewPath("x"), s))
	},
}

func validName(request *nameRequest) (any, error) {
	rule, ok := nameRules[request.Rule]
	if !ok {
		return nil, requestError{fmt.Errorf("unknown rule %q", request.Rule)}
	}
	found := rule(request.In)
	if found == nil {
		found = []string{}
	}
	return found, nil
}

func messages(errs field.ErrorList) []string {
	found := []string{}
	for _, err := range errs {
		found = append(found, err.Error())
	}
	return found
}

type metadataRequest struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	// Old, if given, makes the request an update.
	Old        *metav1.ObjectMeta `json:"old"`
	Namespaced bool               `json:"namespaced"`
	// Name is the validation rule for names (default: NameIsDNSSubdomain).
	Name string `json:"name"`
}

// validMetadata validates an ObjectMeta on create or update.
func validMetadata(request *metadataRequest) (any, error) {
	path := field.NewPath("metadata")
	if request.Old != nil {
		return fieldErrors(apivalidation.ValidateObjectMetaUpdate(&request.Metadata, request.Old, path)), nil
	}
	rule := apivalidation.NameIsDNSSubdomain
	switch request.Name {
	case "", "NameIsDNSSubdomain":
	case "NameIsDNSLabel":
		rule = apivalidation.NameIsDNSLabel
	case "NameIsDNS1035Label":
		rule = apivalidation.NameIsDNS1035Label
	default:
		return nil, requestError{fmt.Errorf("unknown name rule %q", request.Name)}
	}
	errs := apivalidation.ValidateObjectMeta(&request.Metadata, request.Namespaced, rule, path)
	errs = append(errs, metavalidation.ValidateManagedFields(request.Metadata.ManagedFields, path.Child("managedFields"))...)
	return fieldErrors(errs), nil
}

// fieldError is one cause of a Status, with the text that the Status carries.
type fieldError struct {
	Type    string `json:"type"`
	Field   string `json:"field"`
	Message string `json:"message"`
	Text    string `json:"text"`
}

func fieldErrors(errs field.ErrorList) []fieldError {
	found := []fieldError{}
	for _, err := range errs {
		found = append(found, fieldError{string(err.Type), err.Field, err.ErrorBody(), err.Error()})
	}
	return found
}
