package main

import (
	"encoding/base64"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func init() {
	register("protobuf.encode", encodeProtobuf)
	register("protobuf.decode", decodeProtobuf)
}

type protobufRequest struct {
	Object json.RawMessage `json:"object"`
	// Base64 is a protobuf body, with its magic number.
	Base64 string `json:"base64"`
}

// encodeProtobuf returns the body that a Go client sends for an object of a built-in kind.
func encodeProtobuf(request *protobufRequest) (any, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(request.Object, nil, nil)
	if err != nil {
		return nil, err
	}
	serializer := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	text, err := runtime.Encode(serializer, object)
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// decodeProtobuf returns the object of a protobuf body, as JSON.
func decodeProtobuf(request *protobufRequest) (any, error) {
	body, err := base64.StdEncoding.DecodeString(request.Base64)
	if err != nil {
		return nil, requestError{err}
	}
	serializer := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme)
	object, gvk, err := serializer.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(*gvk)
	return object, nil
}
