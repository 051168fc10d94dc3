// Command helm-operator is a chart operator modelled on operator-sdk's runtime, built on controller-runtime and Helm's
// packages. It is the peer that `make bench-helm-operator` compares Steersman with. It is not a port of operator-sdk's code
// and implements only what the benchmark needs, with the same expensive steps:
//
//   - every reconcile loads the chart from disk and creates a Helm configuration, discovery included;
//   - Sync reads the history and runs a dry-run upgrade, whose manifest is compared as text;
//   - if nothing differs, each object is fetched, and patched if a three-way merge finds a difference;
//   - the status is written, and the object is requeued after a minute.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"
)

// chartLabel is set on every released object and selects the objects to cache.
const chartLabel = "helm.sdk.operatorframework.io/chart"

// watch is an entry of watches.yaml.
type watch struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Chart   string `json:"chart"`
}

func (w watch) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: w.Group, Version: w.Version, Kind: w.Kind}
}

func readWatches(path string) ([]watch, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var watches []watch
	if err := yaml.Unmarshal(text, &watches); err != nil {
		return nil, err
	}
	for i := range watches {
		if !filepath.IsAbs(watches[i].Chart) {
			watches[i].Chart = filepath.Join(filepath.Dir(path), watches[i].Chart)
		}
	}
	return watches, nil
}

func main() {
	watchesFile := flag.String("watches-file", "./watches.yaml", "file that names the kinds and their charts")
	period := flag.Duration("reconcile-period", time.Minute, "how often each object is looked at")
	workers := flag.Int("max-concurrent-reconciles", runtime.NumCPU(), "how many objects are worked on at a time")
	metrics := flag.String("metrics-bind-address", ":8080", "where metrics are served")
	probes := flag.String("health-probe-bind-address", ":8081", "where probes are answered")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.UseDevMode(false)))
	if err := run(*watchesFile, *period, *workers, *metrics, *probes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(watchesFile string, period time.Duration, workers int, metrics, probes string) error {
	watches, err := readWatches(watchesFile)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	byObject := map[client.Object]cache.ByObject{}
	var charts []string
	for _, w := range watches {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(w.gvk())
		byObject[object] = cache.ByObject{Label: labels.Everything()}
		loaded, err := loadChart(w.Chart)
		if err != nil {
			return err
		}
		charts = append(charts, loaded.Name())
	}
	ours, err := labels.NewRequirement(chartLabel, selection.In, charts)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                server.Options{BindAddress: metrics},
		HealthProbeBindAddress: probes,
		Cache:                  cache.Options{ByObject: byObject, DefaultLabelSelector: labels.NewSelector().Add(*ours)},
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	for _, w := range watches {
		if err := addController(manager, w, period, workers); err != nil {
			return err
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
