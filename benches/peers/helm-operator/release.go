package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// releases manages the release of one object.
type releases struct {
	config    *action.Configuration
	chart     *chart.Chart
	values    map[string]any
	name      string
	namespace string

	deployed      *release.Release
	upgradeNeeded bool
}

func loadChart(path string) (*chart.Chart, error) { return loader.Load(path) }

// releasesFor loads the chart and creates a Helm configuration for an object.
func (r *reconciler) releasesFor(object *unstructured.Unstructured) (*releases, error) {
	loaded, err := loadChart(r.watch.Chart)
	if err != nil {
		return nil, err
	}
	config := r.manager.GetConfig()
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	owner := *metav1.NewControllerRef(object, r.watch.gvk())
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	get := &getter{
		config: config, mapper: r.manager.GetRESTMapper(), discovery: memory.NewMemCacheClient(found),
		namespace: object.GetNamespace(),
	}
	secrets := &ownedSecrets{SecretInterface: core.Secrets(object.GetNamespace()), owner: owner}
	values, _, err := unstructured.NestedMap(object.Object, "spec")
	if err != nil {
		return nil, err
	}
	return &releases{
		config: &action.Configuration{
			RESTClientGetter: get,
			Releases:         storage.Init(driver.NewSecrets(secrets)),
			KubeClient:       &owningClient{Client: kube.New(get), owner: owner, chart: loaded.Name()},
			Log:              func(string, ...any) {},
		},
		chart: loaded, values: values, name: object.GetName(), namespace: object.GetNamespace(),
	}, nil
}

// sync deletes all revisions that are not deployed and checks whether an upgrade would change the manifest.
func (r *releases) sync() error {
	history, err := r.config.Releases.History(r.name)
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	for _, revision := range history {
		if revision.Info != nil && revision.Info.Status != release.StatusDeployed {
			if _, err := r.config.Releases.Delete(revision.Name, revision.Version); err != nil &&
				!errors.Is(err, driver.ErrReleaseNotFound) {
				return err
			}
		}
	}
	deployed, err := r.config.Releases.Deployed(r.name)
	if err != nil {
		if errors.Is(err, driver.ErrReleaseNotFound) || errors.Is(err, driver.ErrNoDeployedReleases) {
			return nil
		}
		return err
	}
	if deployed.Chart.Name() != r.chart.Name() {
		return fmt.Errorf("duplicate release name: found existing release with name %q for chart %q", r.name, deployed.Chart.Name())
	}
	r.deployed = deployed
	try := action.NewUpgrade(r.config)
	try.Namespace = r.namespace
	try.DryRun = true
	candidate, err := try.Run(r.name, r.chart, r.values)
	if err != nil {
		return err
	}
	r.upgradeNeeded = candidate.Manifest != deployed.Manifest
	return nil
}

func (r *releases) install() (*release.Release, error) {
	install := action.NewInstall(r.config)
	install.ReleaseName = r.name
	install.Namespace = r.namespace
	return install.Run(r.chart, r.values)
}

func (r *releases) upgrade() (*release.Release, error) {
	upgrade := action.NewUpgrade(r.config)
	upgrade.Namespace = r.namespace
	return upgrade.Run(r.name, r.chart, r.values)
}

func (r *releases) uninstall() error {
	_, err := action.NewUninstall(r.config).Run(r.name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	return err
}

// reassert fetches each object of the release and reverts changes.
func (r *releases) reassert(ctx context.Context) error {
	objects, err := r.config.KubeClient.Build(bytes.NewBufferString(r.deployed.Manifest), false)
	if err != nil {
		return err
	}
	return objects.Visit(func(wanted *resource.Info, err error) error {
		if err != nil {
			return err
		}
		helper := resource.NewHelper(wanted.Client, wanted.Mapping)
		live, err := helper.Get(wanted.Namespace, wanted.Name)
		if apierrors.IsNotFound(err) {
			_, err = helper.Create(wanted.Namespace, true, wanted.Object)
			return err
		}
		if err != nil {
			return err
		}
		patch, err := patchFor(live, wanted)
		if err != nil || patch == nil {
			return err
		}
		_, err = helper.Patch(wanted.Namespace, wanted.Name, types.StrategicMergePatchType, patch, &metav1.PatchOptions{})
		return err
	})
}

// patchFor returns nil if the live object has everything that is wanted.
func patchFor(live runtime.Object, wanted *resource.Info) ([]byte, error) {
	liveJSON, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	wantedJSON, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	typed, err := scheme.Scheme.New(wanted.Mapping.GroupVersionKind)
	if err != nil {
		return nil, fmt.Errorf("no built-in kind: %w", err)
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(wantedJSON, wantedJSON, liveJSON, lookup, true)
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return patch, nil
}

// owningClient marks every object that Helm builds.
type owningClient struct {
	*kube.Client
	owner metav1.OwnerReference
	chart string
}

func (c *owningClient) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	objects, err := c.Client.Build(reader, validate)
	if err != nil {
		return nil, err
	}
	err = objects.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: content}
		if info.Namespaced() {
			object.SetOwnerReferences([]metav1.OwnerReference{c.owner})
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[chartLabel] = c.chart
		object.SetLabels(labels)
		info.Object = object
		return nil
	})
	return objects, err
}

// ownedSecrets sets the object as the owner of Helm's release records.
type ownedSecrets struct {
	typedcorev1.SecretInterface
	owner metav1.OwnerReference
}

func (s *ownedSecrets) Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	secret.OwnerReferences = append(secret.OwnerReferences, s.owner)
	return s.SecretInterface.Create(ctx, secret, options)
}

// getter is a RESTClientGetter that uses the manager's connection.
type getter struct {
	config    *rest.Config
	mapper    meta.RESTMapper
	discovery discovery.CachedDiscoveryInterface
	namespace string
}

func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.discovery, nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = g.namespace
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, overrides)
}
