package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/ignore"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// content is a file in a request: a string, {"$b64": …} or {"$tgz": {path: content}} for a packed subchart.
type content []byte

func (c *content) UnmarshalJSON(data []byte) error {
	var packed struct {
		Files files `json:"$tgz"`
	}
	if err := json.Unmarshal(data, &packed); err == nil && packed.Files != nil {
		var buf bytes.Buffer
		err := pack(&buf, packed.Files)
		*c = buf.Bytes()
		return err
	}
	var t text
	err := t.UnmarshalJSON(data)
	*c = content(t)
	return err
}

type files map[string]content

func pack(w io.Writer, files files) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, name := range sortedKeys(files) {
		head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// write writes the files below dir, where `helm` expects them.
func (f files) write(dir string) error {
	for _, name := range sortedKeys(f) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return badRequest{err}
		}
		if err := os.WriteFile(path, f[name], 0o644); err != nil {
			return badRequest{err}
		}
	}
	return nil
}

// load reads the files as from an archive: in the order of their names, without applying .helmignore.
func (f files) load() (*chart.Chart, error) {
	var buffered []*loader.BufferedFile
	for _, name := range sortedKeys(f) {
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: f[name]})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, kindError{err, "load", nil}
	}
	return c, nil
}

// inDirectory writes the files to a new directory named chart, and strips that directory's path from the errors that do
// returns.
func (f files) inDirectory(do func(root, chart string) (any, error)) (any, error) {
	root, err := os.MkdirTemp("", "helm-oracle")
	if err != nil {
		return nil, badRequest{err}
	}
	defer os.RemoveAll(root)
	dir := filepath.Join(root, "chart")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, badRequest{err}
	}
	if err := f.write(dir); err != nil {
		return nil, err
	}
	result, err := do(root, dir)
	if err != nil && strings.Contains(err.Error(), root) {
		plain := fmt.Errorf("%s", strings.ReplaceAll(err.Error(), root+"/", ""))
		if staged, ok := err.(kindError); ok {
			return result, kindError{plain, staged.kind, staged.partial}
		}
		return result, plain
	}
	return result, err
}

// releaseOptions are the release and the cluster to render for.
type releaseOptions struct {
	Name        string
	Namespace   string
	Revision    int
	IsUpgrade   bool     `json:"is_upgrade"`
	KubeVersion string   `json:"kube_version"`
	APIVersions []string `json:"api_versions"`
}

func (o *releaseOptions) release() chartutil.ReleaseOptions {
	if o.Name == "" {
		o.Name = "rel"
	}
	if o.Namespace == "" {
		o.Namespace = "ns"
	}
	if o.Revision == 0 {
		o.Revision = 1
	}
	return chartutil.ReleaseOptions{
		Name: o.Name, Namespace: o.Namespace, Revision: o.Revision, IsInstall: !o.IsUpgrade, IsUpgrade: o.IsUpgrade,
	}
}

func (o *releaseOptions) capabilities() (*chartutil.Capabilities, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	if o.KubeVersion != "" {
		v, err := chartutil.ParseKubeVersion(o.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("invalid kube version '%s': %s", o.KubeVersion, err)
		}
		caps.KubeVersion = *v
	}
	caps.APIVersions = append(append(chartutil.VersionSet{}, caps.APIVersions...), o.APIVersions...)
	return caps, nil
}

// opRender runs Helm's engine on a chart and returns each template's text, neither sorted nor split.
func opRender(r *request) (any, error) {
	var q struct {
		releaseOptions
		Files  files
		Values value
		Strict bool
		Lint   bool
		// SkipDependencies skips conditions, tags and imports.
		SkipDependencies bool `json:"skip_dependencies"`
		SkipSchema       bool `json:"skip_schema"`
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	c, err := q.Files.load()
	if err != nil {
		return nil, err
	}
	vals, err := asMap(q.Values.v)
	if err != nil {
		return nil, err
	}
	if !q.SkipDependencies {
		if err := chartutil.ProcessDependenciesWithMerge(c, vals); err != nil {
			return nil, kindError{err, "dependencies", nil}
		}
	}
	caps, err := q.capabilities()
	if err != nil {
		return nil, err
	}
	render, err := chartutil.ToRenderValuesWithSchemaValidation(c, vals, q.release(), caps, q.SkipSchema)
	if err != nil {
		return nil, kindError{err, "values", nil}
	}
	out, err := engine.Engine{Strict: q.Strict, LintMode: q.Lint}.Render(c, render)
	if err != nil {
		return nil, kindError{err, "render", nil}
	}
	rendered := map[string]text{}
	for name, s := range out {
		rendered[name] = text(s)
	}
	return rendered, nil
}

func asMap(v any) (map[string]any, error) {
	switch v := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	case chartutil.Values:
		return v, nil
	}
	return nil, badRequest{fmt.Errorf("values are a %T", v)}
}

// valueSources are Helm's flags for values; files are given inline and read as values-N.yaml.
type valueSources struct {
	ValueFiles []text          `json:"value_files"`
	Set        []string        `json:"set"`
	SetString  []string        `json:"set_string"`
	SetJSON    []string        `json:"set_json"`
	SetLiteral []string        `json:"set_literal"`
	SetFile    []string        `json:"set_file"`
	Extra      map[string]text `json:"extra_files"`
}

func (s valueSources) merge(root string) (map[string]any, error) {
	opts := values.Options{
		Values: s.Set, StringValues: s.SetString, JSONValues: s.SetJSON, LiteralValues: s.SetLiteral, FileValues: s.SetFile,
	}
	for i, t := range s.ValueFiles {
		path := filepath.Join(root, fmt.Sprintf("values-%d.yaml", i))
		if err := os.WriteFile(path, []byte(t), 0o644); err != nil {
			return nil, badRequest{err}
		}
		opts.ValueFiles = append(opts.ValueFiles, path)
	}
	for name, t := range s.Extra {
		if err := os.WriteFile(filepath.Join(root, filepath.Base(name)), []byte(t), 0o644); err != nil {
			return nil, badRequest{err}
		}
	}
	if len(s.SetFile) > 0 {
		here, err := os.Getwd()
		if err != nil {
			return nil, badRequest{err}
		}
		if err := os.Chdir(root); err != nil {
			return nil, badRequest{err}
		}
		defer os.Chdir(here)
	}
	return opts.MergeValues(getter.All(&cli.EnvSettings{}))
}

// opHelmTemplate runs `helm template NAME CHART` in this process.
func opHelmTemplate(r *request) (any, error) {
	var q struct {
		releaseOptions
		valueSources
		Files                files
		ShowOnly             []string `json:"show_only"`
		IncludeCRDs          bool     `json:"include_crds"`
		SkipTests            bool     `json:"skip_tests"`
		NoHooks              bool     `json:"no_hooks"`
		SubNotes             bool     `json:"sub_notes"`
		SkipSchemaValidation bool     `json:"skip_schema_validation"`
		NameTemplate         string   `json:"name_template"`
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	return q.Files.inDirectory(func(root, dir string) (any, error) {
		client := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
		client.DryRun, client.DryRunOption, client.Replace, client.ClientOnly = true, "true", true, true
		client.ReleaseName = "release-name"
		client.IsUpgrade, client.IncludeCRDs, client.DisableHooks = q.IsUpgrade, q.IncludeCRDs, q.NoHooks
		client.SubNotes, client.SkipSchemaValidation = q.SubNotes, q.SkipSchemaValidation
		client.NameTemplate, client.APIVersions = q.NameTemplate, q.APIVersions
		if q.KubeVersion != "" {
			v, err := chartutil.ParseKubeVersion(q.KubeVersion)
			if err != nil {
				return nil, fmt.Errorf("invalid kube version '%s': %s", q.KubeVersion, err)
			}
			client.KubeVersion = v
		}
		args := []string{dir}
		if q.NameTemplate == "" {
			args = []string{q.release().Name, dir}
		}
		name, _, err := client.NameAndChart(args)
		if err != nil {
			return nil, err
		}
		client.ReleaseName, client.Namespace = name, q.release().Namespace
		vals, err := q.valueSources.merge(root)
		if err != nil {
			return nil, err
		}
		c, err := loader.Load(dir)
		if err != nil {
			return nil, err
		}
		if c.Metadata.Type != "" && c.Metadata.Type != "application" {
			return nil, fmt.Errorf("%s charts are not installable", c.Metadata.Type)
		}
		if err := action.CheckDependencies(c, c.Metadata.Dependencies); c.Metadata.Dependencies != nil && err != nil {
			return nil, fmt.Errorf("An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: %w", err)
		}
		rel, err := client.Run(c, vals)
		if err != nil {
			if rel != nil {
				return nil, fmt.Errorf("%w\n\nUse --debug flag to render out invalid YAML", err)
			}
			return nil, err
		}
		out, err := printed(rel, q.NoHooks, q.SkipTests, q.ShowOnly)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"out": text(out), "manifest": text(rel.Manifest), "notes": text(rel.Info.Notes), "hooks": hooks(rel.Hooks),
		}, nil
	})
}

// printed returns what the command writes to standard output.
func printed(rel *release.Release, noHooks, skipTests bool, showOnly []string) (string, error) {
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimSpace(rel.Manifest))
	if !noHooks {
		for _, h := range rel.Hooks {
			if skipTests && isTest(h) {
				continue
			}
			fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", h.Path, h.Manifest)
		}
	}
	if len(showOnly) == 0 {
		return b.String(), nil
	}
	split := releaseutil.SplitManifests(b.String())
	keys := sortedKeys(split)
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	source := regexp.MustCompile("# Source: [^/]+/(.+)")
	var shown strings.Builder
	for _, pattern := range showOnly {
		missing := true
		for _, k := range keys {
			m := source.FindStringSubmatch(split[k])
			if len(m) == 0 {
				continue
			}
			if ok, _ := filepath.Match(pattern, m[1]); ok {
				fmt.Fprintf(&shown, "---\n%s\n", split[k])
				missing = false
			}
		}
		if missing {
			return "", fmt.Errorf("could not find template %s in chart", pattern)
		}
	}
	return shown.String(), nil
}

func isTest(h *release.Hook) bool {
	for _, e := range h.Events {
		if e == release.HookTest {
			return true
		}
	}
	return false
}

func hooks(hs []*release.Hook) []any {
	out := []any{}
	for _, h := range hs {
		out = append(out, map[string]any{
			"name": text(h.Name), "kind": text(h.Kind), "path": text(h.Path), "manifest": text(h.Manifest), "weight": h.Weight,
			"events": h.Events, "delete_policies": h.DeletePolicies, "output_log_policies": h.OutputLogPolicies,
		})
	}
	return out
}

// opCoalesce combines a chart's values with the caller's.
func opCoalesce(r *request) (any, error) {
	var q struct {
		releaseOptions
		Files  files
		Values value
		// Do is coalesce, merge, render (ToRenderValues' .Values), process or process-merge (the chart and values
		// after dependencies), or tables / merge-tables on Values and Src alone.
		Do  string
		Src value
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	vals, err := asMap(q.Values.v)
	if err != nil {
		return nil, err
	}
	if q.Do == "tables" || q.Do == "merge-tables" {
		src, err := asMap(q.Src.v)
		if err != nil {
			return nil, err
		}
		if q.Do == "tables" {
			return map[string]any{"value": encode(chartutil.CoalesceTables(vals, src))}, nil
		}
		return map[string]any{"value": encode(chartutil.MergeTables(vals, src))}, nil
	}
	c, err := q.Files.load()
	if err != nil {
		return nil, err
	}
	var out chartutil.Values
	switch q.Do {
	case "coalesce":
		out, err = chartutil.CoalesceValues(c, vals)
	case "merge":
		out, err = chartutil.MergeValues(c, vals)
	case "process", "process-merge":
		process := chartutil.ProcessDependencies
		if q.Do == "process-merge" {
			process = chartutil.ProcessDependenciesWithMerge
		}
		if err := process(c, vals); err != nil {
			return nil, err
		}
		return map[string]any{"value": encode(map[string]any(vals)), "chart": shape(c)}, nil
	case "render":
		if err := chartutil.ProcessDependenciesWithMerge(c, vals); err != nil {
			return nil, kindError{err, "dependencies", nil}
		}
		var caps *chartutil.Capabilities
		if caps, err = q.capabilities(); err != nil {
			return nil, err
		}
		var top chartutil.Values
		top, err = chartutil.ToRenderValuesWithSchemaValidation(c, vals, q.release(), caps, true)
		if err == nil {
			out, _ = top["Values"].(chartutil.Values)
		}
	default:
		return nil, badRequest{fmt.Errorf("unknown do %q", q.Do)}
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"value": encode(map[string]any(out))}, nil
}

// shape returns what is left of a chart after its dependencies are processed.
func shape(c *chart.Chart) any {
	subcharts := []any{}
	for _, d := range c.Dependencies() {
		subcharts = append(subcharts, shape(d))
	}
	return map[string]any{"name": text(c.Name()), "values": encode(c.Values), "subcharts": subcharts}
}

// opLoad returns a chart as the loader reads it.
func opLoad(r *request) (any, error) {
	var q struct {
		Files files
		// Dir loads from a directory, so that .helmignore applies.
		Dir bool
		// Archive loads this .tgz unchanged.
		Archive *content
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	shown := func(c *chart.Chart) any { return loaded(c) }
	switch {
	case q.Archive != nil:
		c, err := loader.LoadArchive(bytes.NewReader(*q.Archive))
		if err != nil {
			return nil, kindError{err, "load", nil}
		}
		return shown(c), nil
	case q.Dir:
		return q.Files.inDirectory(func(_, dir string) (any, error) {
			c, err := loader.Load(dir)
			if err != nil {
				return nil, kindError{err, "load", nil}
			}
			return shown(c), nil
		})
	}
	c, err := q.Files.load()
	if err != nil {
		return nil, err
	}
	return shown(c), nil
}

func loaded(c *chart.Chart) any {
	names := func(fs []*chart.File) []text {
		out := []text{}
		for _, f := range fs {
			out = append(out, text(f.Name))
		}
		return out
	}
	crds := []text{}
	for _, crd := range c.CRDObjects() {
		crds = append(crds, text(crd.Filename))
	}
	subcharts := []any{}
	for _, d := range c.Dependencies() {
		subcharts = append(subcharts, loaded(d))
	}
	return map[string]any{
		"metadata": c.Metadata, "templates": names(c.Templates), "files": names(c.Files), "values": encode(c.Values),
		"schema": c.Schema != nil, "lock": c.Lock != nil, "crds": crds, "subcharts": subcharts,
	}
}

// opFiles calls the methods of .Files.
func opFiles(r *request) (any, error) {
	var q struct {
		Files files
		// Text is a template that accesses the files as .Files.
		Text text
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	c := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "c", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/t", Data: []byte(q.Text)}},
	}
	for _, name := range sortedKeys(q.Files) {
		c.Files = append(c.Files, &chart.File{Name: name, Data: q.Files[name]})
	}
	out, err := engine.Render(c, chartutil.Values{"Values": chartutil.Values{}})
	if err != nil {
		return nil, err
	}
	return text(out["c/templates/t"]), nil
}

// opSchema validates values.
func opSchema(r *request) (any, error) {
	var q struct {
		Schema text
		Values value
		// Files, if given, is a chart, all of whose schemas are checked.
		Files files
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	vals, err := asMap(q.Values.v)
	if err != nil {
		return nil, err
	}
	if q.Files != nil {
		c, err := q.Files.load()
		if err != nil {
			return nil, err
		}
		if err := chartutil.ValidateAgainstSchema(c, vals); err != nil {
			return nil, err
		}
		return true, nil
	}
	if err := chartutil.ValidateAgainstSingleSchema(vals, []byte(q.Schema)); err != nil {
		return nil, err
	}
	return true, nil
}

// opLint lints one chart as `helm lint` does.
func opLint(r *request) (any, error) {
	var q struct {
		valueSources
		Files       files
		Namespace   string
		Strict      bool
		KubeVersion string `json:"kube_version"`
		SkipSchema  bool   `json:"skip_schema_validation"`
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	return q.Files.inDirectory(func(root, dir string) (any, error) {
		client := action.NewLint()
		client.Strict, client.Namespace, client.SkipSchemaValidation = q.Strict, q.Namespace, q.SkipSchema
		if q.KubeVersion != "" {
			v, err := chartutil.ParseKubeVersion(q.KubeVersion)
			if err != nil {
				return nil, fmt.Errorf("invalid kube version '%s': %s", q.KubeVersion, err)
			}
			client.KubeVersion = v
		}
		vals, err := q.valueSources.merge(root)
		if err != nil {
			return nil, err
		}
		result := client.Run([]string{dir}, vals)
		plain := func(s string) text { return text(strings.ReplaceAll(s, root+"/", "")) }
		messages := []any{}
		for _, m := range result.Messages {
			messages = append(messages, map[string]any{
				"severity": severity(m), "path": plain(m.Path), "text": plain(m.Err.Error()), "line": plain(m.Error()),
			})
		}
		errs := []text{}
		for _, e := range result.Errors {
			errs = append(errs, plain(e.Error()))
		}
		return map[string]any{"messages": messages, "errors": errs}, nil
	})
}

func severity(m support.Message) string {
	switch m.Severity {
	case support.InfoSev:
		return "INFO"
	case support.WarningSev:
		return "WARNING"
	case support.ErrorSev:
		return "ERROR"
	}
	return "UNKNOWN"
}

// opSort splits and sorts rendered files.
func opSort(r *request) (any, error) {
	var q struct {
		Files map[string]text
		// Uninstall uses the uninstall order instead of the install order.
		Uninstall bool
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	in := map[string]string{}
	for name, t := range q.Files {
		in[name] = string(t)
	}
	order := releaseutil.InstallOrder
	if q.Uninstall {
		order = releaseutil.UninstallOrder
	}
	hs, ms, err := releaseutil.SortManifests(in, nil, order)
	if err != nil {
		return nil, err
	}
	manifests := []any{}
	for _, m := range ms {
		manifests = append(manifests, map[string]any{"path": text(m.Name), "kind": text(m.Head.Kind), "text": text(m.Content)})
	}
	return map[string]any{"manifests": manifests, "hooks": hooks(hs)}, nil
}

// opHelmignore returns which paths a .helmignore excludes. A path that ends in / is a directory.
func opHelmignore(r *request) (any, error) {
	var q struct {
		Text  text
		Paths []string
	}
	if err := r.decode(&q); err != nil {
		return nil, err
	}
	rules, err := ignore.Parse(strings.NewReader(string(q.Text)))
	if err != nil {
		return nil, err
	}
	rules.AddDefaults()
	ignored := []bool{}
	for _, p := range q.Paths {
		clean := strings.TrimSuffix(p, "/")
		ignored = append(ignored, rules.Ignore(clean, entry{name: filepath.Base(clean), dir: clean != p}))
	}
	return ignored, nil
}
