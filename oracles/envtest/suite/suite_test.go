// Package suite is a typical suite of an operator: a CRD from a file, a manager with webhooks, a user with few permissions,
// and two API servers on one etcd.
package suite

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var widget = schema.GroupVersionKind{Group: "suite.example.com", Version: "v1", Kind: "Widget"}

func start(t *testing.T, environment *envtest.Environment) *rest.Config {
	t.Helper()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

func newWidget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	object.SetGroupVersionKind(widget)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func TestDefinitionsAndUsers(t *testing.T) {
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"testdata"}, ErrorIfCRDPathMissing: true}
	config := start(t, environment)
	ctx := context.Background()
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(ctx, newWidget("a")); err != nil {
		t.Fatal(err)
	}
	tooBig := newWidget("b")
	_ = unstructured.SetNestedField(tooBig.Object, int64(99), "spec", "size")
	if err := admin.Create(ctx, tooBig); !apierrors.IsInvalid(err) {
		t.Fatalf("the schema is not kept: %v", err)
	}
	// A pod needs no service account, as the admission plugin is disabled.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if err := admin.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.ServiceAccountName != "" || len(pod.Spec.Volumes) != 0 {
		t.Fatalf("the pod got an account: %v", pod.Spec)
	}
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"developers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jane, err := client.New(user.Config(), client.Options{Mapper: admin.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := jane.Create(ctx, newWidget("c")); !apierrors.IsForbidden(err) {
		t.Fatalf("jane has no rights: %v", err)
	}
}

func TestWebhooks(t *testing.T) {
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{"testdata"},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"testdata/webhook"}},
	}
	config := start(t, environment)
	options := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	manager.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(
		func(_ context.Context, request admission.Request) admission.Response {
			if request.Name == "forbidden" {
				return admission.Denied("not this one")
			}
			return admission.Allowed("").WithWarnings("seen")
		})})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	deadline := time.Now().Add(20 * time.Second)
	for manager.GetWebhookServer().StartedChecker()(&http.Request{}) != nil {
		if time.Now().After(deadline) {
			t.Fatal("the webhook server does not start")
		}
		time.Sleep(20 * time.Millisecond)
	}
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(ctx, newWidget("fine")); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(ctx, newWidget("forbidden")); !apierrors.IsForbidden(err) {
		t.Fatalf("the webhook was not asked: %v", err)
	}
}

func TestServersShareAnEtcd(t *testing.T) {
	environment := &envtest.Environment{}
	config := start(t, environment)
	ctx := context.Background()
	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("map-%d", i)}}
		if err := admin.Create(ctx, stored); err != nil {
			t.Fatal(err)
		}
	}
	other := &envtest.APIServer{EtcdURL: environment.ControlPlane.Etcd.URL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	}()
	// The second server has its own port, certificates and users.
	base := &rest.Config{Host: other.SecureServing.HostPort(), TLSClientConfig: rest.TLSClientConfig{CAData: other.SecureServing.CA}}
	second, err := other.SecureServing.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, base)
	if err != nil {
		t.Fatal(err)
	}
	admin, err = client.New(second, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	maps := &corev1.ConfigMapList{}
	if err := admin.List(ctx, maps, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, item := range maps.Items {
		if len(item.Name) > 4 && item.Name[:4] == "map-" {
			found++
		}
	}
	if found != 3 {
		t.Fatalf("%d maps", found)
	}
}
