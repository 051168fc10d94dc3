// Command clients prints what client-go sees of a cluster: lists, watches, informers, patches, eviction, tokens, and the
// refusal of exec.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reason returns the reason by which clients distinguish errors.
func reason(err error) string {
	if err == nil {
		return "none"
	}
	return string(apierrors.ReasonForError(err))
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	for _, content := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := rest.CopyConfig(config)
		config.ContentType, config.AcceptContentTypes = content, content
		run(config, content[strings.LastIndexAny(content, "/.")+1:])
	}
}

func run(config *rest.Config, name string) {
	fmt.Println("==", name)
	namespace := "clients-go-" + name
	client, err := kubernetes.NewForConfig(config)
	must(err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(err)
	defer client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	maps := client.CoreV1().ConfigMaps(namespace)

	events := make(chan string, 100)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "seen=yes" }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events <- "added " + o.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, o any) { events <- fmt.Sprint("updated ", o.(*corev1.ConfigMap).Data) },
		DeleteFunc: func(o any) { events <- "deleted " + o.(*corev1.ConfigMap).Name },
	})
	must(err)
	stop := make(chan struct{})
	defer close(stop)
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	next := func(what string) {
		select {
		case event := <-events:
			fmt.Println(what, event)
		case <-time.After(10 * time.Second):
			fmt.Println(what, "nothing")
		}
	}

	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"seen": "yes"}}, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 255}}}, metav1.CreateOptions{})
	must(err)
	next("informer:")
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"data":{"merge":"1"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"1","k":null}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"1"},{"op":"test","path":"/metadata/name","value":"a"}]`,
	} {
		_, err := maps.Patch(ctx, "a", kind, []byte(patch), metav1.PatchOptions{})
		must(err)
		<-events
	}
	force := true
	applied, err := maps.Patch(ctx, "a", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"apply":"1"}}`), metav1.PatchOptions{FieldManager: "clients", Force: &force})
	must(err)
	managers := []string{}
	for _, entry := range applied.ManagedFields {
		managers = append(managers, fmt.Sprint(entry.Manager, "/", entry.Operation))
	}
	sort.Strings(managers)
	fmt.Println("patched:", applied.Data, applied.BinaryData, managers)
	next("informer:")
	_, err = maps.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/name","value":"b"}]`), metav1.PatchOptions{})
	fmt.Println("a test that fails:", reason(err), err)
	applied.ResourceVersion = "1"
	_, err = maps.Update(ctx, applied, metav1.UpdateOptions{})
	fmt.Println("an old version:", reason(err))
	must(maps.Delete(ctx, "a", metav1.DeleteOptions{}))
	next("informer:")
	_, err = maps.Get(ctx, "a", metav1.GetOptions{})
	fmt.Println("gone:", reason(err), err)

	for i := range 5 {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}}, metav1.CreateOptions{})
		must(err)
	}
	var names []string
	for token := ""; ; {
		page, err := maps.List(ctx, metav1.ListOptions{Limit: 2, Continue: token, FieldSelector: "metadata.name!=kube-root-ca.crt"})
		must(err)
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if token = page.Continue; token == "" {
			break
		}
	}
	fmt.Println("pages:", names)
	_, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a=("})
	fmt.Println("a selector that is none:", reason(err))

	watch, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "metadata.name=m1"})
	must(err)
	must(maps.Delete(ctx, "m1", metav1.DeleteOptions{}))
	for range 2 {
		event := <-watch.ResultChan()
		fmt.Println("watch:", event.Type, event.Object.(*corev1.ConfigMap).Name)
	}
	watch.Stop()

	partial, err := metadata.NewForConfig(config)
	must(err)
	meta := metadatainformer.NewSharedInformerFactory(partial, 0)
	secrets := corev1.SchemeGroupVersion.WithResource("configmaps")
	meta.ForResource(secrets).Informer()
	meta.Start(stop)
	meta.WaitForCacheSync(stop)
	_, err = meta.ForResource(secrets).Lister().ByNamespace(namespace).Get("m2")
	fmt.Println("metadata informer:", reason(err))

	pods := client.CoreV1().Pods(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	fmt.Println("a pod of no account:", reason(err))
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	must(err)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	must(err)
	fmt.Println("pod:", made.Spec.RestartPolicy, made.Spec.Tolerations[0].Key, len(made.Spec.Volumes))
	seconds := int64(600)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	must(err)
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = token.Status.Token
	robot, err := kubernetes.NewForConfig(own)
	must(err)
	self, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(err)
	fmt.Println("token:", self.Status.UserInfo.Username, self.Status.UserInfo.Groups)
	_, err = robot.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	fmt.Println("refused:", err)
	request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name("p").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"true"}, Stdout: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	must(err)
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: os.Stdout})
	fmt.Println("exec is refused:", err != nil)
	fmt.Println("eviction:", reason(pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})))
	fmt.Println("eviction again:", reason(pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "q"}})))
	must(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}))
	rest, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	must(err)
	fmt.Println("left:", len(rest.Items))
}
