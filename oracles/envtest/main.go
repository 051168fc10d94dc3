// Command envtest runs suites that use envtest on the programs of `steer envtest` and on the real ones, and compares the
// results.
//
//	envtest --ours DIR --real DIR [SUITE...]
//
// The suites are those of the projects below, taken from the module cache, and our own in ./suite. Both sides run the same
// test binary, one package at a time. A suite is named by its project and package; the name of a project selects all of its
// suites.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// project is a module whose packages have suites that start an environment.
type project struct {
	name, module string
	// version defaults to the one that go.mod pins.
	version string
	// nested are modules in the project's repository that are published separately. The project replaces them with their
	// directories.
	nested   []string
	packages []string
}

var projects = []project{
	{
		name: "controller-runtime", module: "sigs.k8s.io/controller-runtime",
		packages: []string{
			"pkg/client", "pkg/envtest", "pkg/webhook", "pkg/builder", "pkg/cache", "pkg/cluster", "pkg/controller",
			"pkg/controller/controllerutil", "pkg/handler", "pkg/internal/controller", "pkg/internal/recorder", "pkg/manager",
			"pkg/manager/internal/integration", "pkg/metrics/filters", "pkg/reconcile", "pkg/source",
		},
	},
	{
		// Server-side apply, drift and pruning.
		name: "fluxcd-ssa", module: "github.com/fluxcd/pkg/ssa", version: "v0.78.0",
		packages: []string{".", "jsondiff"},
	},
	{
		// CRDs of many kinds in several versions, with conversion, defaulting and validation by webhooks.
		name: "cluster-api", module: "sigs.k8s.io/cluster-api", version: "v1.14.2", nested: []string{"api"},
		packages: []string{
			"core/webhooks/admission/test", "util/patch/test", "internal/util/ssa/test", "controllers/crdmigrator",
		},
	},
	{
		// CRDs with many CEL rules.
		name: "karpenter", module: "sigs.k8s.io/karpenter", version: "v1.14.0",
		packages: []string{"pkg/apis/v1"},
	},
}

// known maps specs that may fail on a fast server to the reason.
var known = map[string]string{
	"should allow for get informer to be cancelled": "it cancels while the server is expected to be still answering",
}

// outcome is the result of a suite on one side.
type outcome struct {
	passed, failed int
	failures       []string
	wall, cpu      time.Duration
	memory         int64 // KiB, of the largest process
	output         []byte
}

var (
	ginkgoLine = regexp.MustCompile(`(\d+) Passed .* (\d+) Failed`)
	goTestLine = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL): (\S+)`)
	failLine   = regexp.MustCompile(`(?m)^\s*(?:\x1b\[[0-9;]*m)*\[(?:FAIL|PANICKED!|TIMEDOUT)\](?:\x1b\[[0-9;]*m)* (.*)$`)
	colour     = regexp.MustCompile(`\x1b\[[0-9;]*m`)
)

func main() {
	ours := flag.String("ours", "", "directory of the programs of steer envtest")
	real := flag.String("real", "", "directory of the real programs")
	out := flag.String("out", "", "directory for the output of suites that fail")
	rounds := flag.Int("rounds", 5, "environments to start and stop")
	flag.Parse()
	log.SetLogger(logr.Discard())
	scratch, err := os.MkdirTemp("", "envtest-")
	check(err)
	defer os.RemoveAll(scratch)

	different, total := 0, [2]outcome{}
	for _, suite := range chosen(flag.Args(), scratch) {
		name, at := suite.name, suite.directory
		binary := filepath.Join(scratch, strings.ReplaceAll(strings.TrimPrefix(name, "./"), "/", "_"))
		build := exec.Command("go", append([]string{"test", "-c", "-vet=off", "-o", binary}, append(suite.flags, ".")...)...)
		build.Dir, build.Stderr = at, os.Stderr
		check(build.Run())
		sides := [2]outcome{run(binary, at, *ours), run(binary, at, *real)}
		check(os.Remove(binary))
		for i, side := range sides {
			total[i].passed += side.passed
			total[i].failed += side.failed
			total[i].wall += side.wall
			total[i].cpu += side.cpu
			total[i].memory = max(total[i].memory, side.memory)
		}
		fmt.Printf("envtest %-52s ours passed=%d failed=%d %.1fs   real passed=%d failed=%d %.1fs\n", name,
			sides[0].passed, sides[0].failed, sides[0].wall.Seconds(), sides[1].passed, sides[1].failed, sides[1].wall.Seconds())
		unexpected := 0
		for _, failure := range sides[0].failures {
			if slices.Contains(sides[1].failures, failure) {
				fmt.Printf("  fails on both sides: %s\n", failure)
			} else if reason := listed(failure); reason != "" {
				fmt.Printf("  listed: %s (%s)\n", failure, reason)
			} else {
				fmt.Printf("  fails on ours alone: %s\n", failure)
				unexpected++
			}
		}
		if sides[0].passed+len(sides[0].failures) < sides[1].passed {
			fmt.Printf("  %d fewer ran on ours\n", sides[1].passed-sides[0].passed-len(sides[0].failures))
			unexpected++
		}
		different += unexpected
		if *out != "" && (unexpected > 0 || sides[1].failed > 0) {
			check(os.MkdirAll(*out, 0o755))
			for i, side := range []string{"ours", "real"} {
				check(os.WriteFile(filepath.Join(*out, filepath.Base(binary)+"-"+side+".log"), sides[i].output, 0o644))
			}
		}
		bench("envtest-suites/"+strings.TrimPrefix(name, "./"), sides[0].wall.Seconds(), sides[1].wall.Seconds(), "s")
	}
	fmt.Printf("envtest specs ours passed=%d failed=%d   real passed=%d failed=%d   different=%d\n",
		total[0].passed, total[0].failed, total[1].passed, total[1].failed, different)
	bench("envtest-suites", total[0].wall.Seconds(), total[1].wall.Seconds(), "s")
	bench("envtest-suites-cpu", total[0].cpu.Seconds(), total[1].cpu.Seconds(), "s")
	bench("envtest-suites-largest-process", float64(total[0].memory)/1024, float64(total[1].memory)/1024, "MiB")
	if *rounds > 0 {
		bench("envtest-start-stop", startStop(*ours, *rounds), startStop(*real, *rounds), "s")
	}
	if different > 0 {
		os.Exit(1)
	}
}

// suite is a package with tests, and what the go command needs to build them.
type suite struct {
	name, directory string
	flags           []string
}

// chosen returns the requested suites, all of them by default.
func chosen(asked []string, scratch string) []suite {
	var found []suite
	for _, project := range projects {
		names := make([]string, 0, len(project.packages))
		for _, name := range project.packages {
			full := path.Join(project.name, name)
			if len(asked) == 0 || slices.Contains(asked, project.name) || slices.Contains(asked, full) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		directory, flags := project.open(scratch)
		for _, name := range names {
			found = append(found, suite{path.Join(project.name, name), filepath.Join(directory, name), flags})
		}
	}
	if own := "./suite"; len(asked) == 0 || slices.Contains(asked, own) {
		directory, err := filepath.Abs(own)
		check(err)
		found = append(found, suite{name: own, directory: directory})
	}
	if len(found) == 0 {
		check(fmt.Errorf("no suite is called %s", strings.Join(asked, " ")))
	}
	return found
}

// open downloads a project into the module cache and returns its directory and the flags to build it with.
func (p project) open(scratch string) (string, []string) {
	var module struct{ Dir string }
	if p.version == "" {
		check(json.Unmarshal(command("go", "list", "-m", "-json", p.module), &module))
	} else {
		check(json.Unmarshal(command("go", "mod", "download", "-json", p.module+"@"+p.version), &module))
	}
	if len(p.nested) == 0 {
		return module.Dir, nil
	}
	// A module archive omits nested modules: use the published ones instead.
	file := filepath.Join(scratch, p.name+".mod")
	for from, to := range map[string]string{"go.mod": file, "go.sum": filepath.Join(scratch, p.name+".sum")} {
		content, err := os.ReadFile(filepath.Join(module.Dir, from))
		check(err)
		check(os.WriteFile(to, content, 0o644))
	}
	for _, nested := range p.nested {
		replaced := path.Join(p.module, nested)
		command("go", "mod", "edit", "-replace="+replaced+"="+replaced+"@"+p.version, file)
	}
	return module.Dir, []string{"-mod=mod", "-modfile=" + file}
}

// run runs a test binary in its package's directory.
func run(binary, directory, assets string) outcome {
	test := exec.Command(binary, "-test.v", "-test.timeout=15m")
	test.Dir = directory
	test.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "GINKGO_EDITOR_INTEGRATION=true")
	var output bytes.Buffer
	test.Stdout, test.Stderr = &output, &output
	begun := time.Now()
	// A failing suite reports the failure in its output.
	_ = test.Run()
	result := outcome{wall: time.Since(begun), output: output.Bytes()}
	if usage, ok := test.ProcessState.SysUsage().(*syscall.Rusage); ok {
		result.cpu = test.ProcessState.UserTime() + test.ProcessState.SystemTime()
		result.memory = usage.Maxrss
	}
	text := colour.ReplaceAllString(output.String(), "")
	for _, match := range ginkgoLine.FindAllStringSubmatch(text, -1) {
		passed, _ := strconv.Atoi(match[1])
		failed, _ := strconv.Atoi(match[2])
		result.passed += passed
		result.failed += failed
	}
	for _, match := range goTestLine.FindAllStringSubmatch(text, -1) {
		switch {
		case match[1] == "PASS":
			result.passed++
		default:
			result.failed++
			result.failures = append(result.failures, match[2])
		}
	}
	for _, match := range failLine.FindAllStringSubmatch(text, -1) {
		result.failures = append(result.failures, strings.TrimSpace(match[1]))
	}
	sort.Strings(result.failures)
	result.failures = slices.Compact(result.failures)
	return result
}

func listed(failure string) string {
	for name, reason := range known {
		if strings.Contains(failure, name) {
			return reason
		}
	}
	return ""
}

// startStop returns the median time in seconds to start and stop an environment.
func startStop(assets string, rounds int) float64 {
	var seconds []float64
	for range rounds {
		begun := time.Now()
		environment := &envtest.Environment{BinaryAssetsDirectory: assets}
		_, err := environment.Start()
		check(err)
		check(environment.Stop())
		seconds = append(seconds, time.Since(begun).Seconds())
	}
	sort.Float64s(seconds)
	return seconds[len(seconds)/2]
}

func bench(name string, ours, peer float64, unit string) {
	fmt.Printf("bench %s ours=%.3f peer=%.3f ratio=%.2f unit=%s\n", name, ours, peer, peer/ours, unit)
}

func command(name string, arguments ...string) []byte {
	output, err := exec.Command(name, arguments...).Output()
	check(err)
	return output
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(2)
	}
}
