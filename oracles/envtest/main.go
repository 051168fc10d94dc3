// Runs suites that use envtest on the programs of `steer envtest` and on the real ones, and compares.
//
//	envtest --ours DIR --real DIR [PACKAGE...]
//
// The suites are those of sigs.k8s.io/controller-runtime in the version that go.mod pins, as they are in the module cache, and our
// own in ./suite. Both sides run the same test binary, one package at a time.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

const module = "sigs.k8s.io/controller-runtime"

// The packages of controller-runtime whose suites start an environment.
var packages = []string{
	"pkg/client", "pkg/envtest", "pkg/webhook", "pkg/builder", "pkg/cache", "pkg/cluster", "pkg/controller",
	"pkg/controller/controllerutil", "pkg/handler", "pkg/internal/controller", "pkg/internal/recorder", "pkg/manager",
	"pkg/manager/internal/integration", "pkg/metrics/filters", "pkg/reconcile", "pkg/source",
}

// Specs that may fail on a server that is fast, each with its reason.
var known = map[string]string{
	"should allow for get informer to be cancelled": "it cancels while the server is expected to be still answering",
}

// The outcome of a suite on one side.
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
	chosen := flag.Args()
	if len(chosen) == 0 {
		chosen = append(slices.Clone(packages), "./suite")
	}
	directory := command("go", "list", "-m", "-f", "{{.Dir}}", module)
	binaries, err := os.MkdirTemp("", "envtest-")
	check(err)
	defer os.RemoveAll(binaries)

	different, total := 0, [2]outcome{}
	for _, name := range chosen {
		at := filepath.Join(directory, name)
		if strings.HasPrefix(name, "./") {
			at, err = filepath.Abs(name)
			check(err)
		}
		binary := filepath.Join(binaries, strings.ReplaceAll(strings.TrimPrefix(name, "./"), "/", "_"))
		build := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, ".")
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
		fmt.Printf("envtest %-34s ours passed=%d failed=%d %.1fs   real passed=%d failed=%d %.1fs\n", name,
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

// Runs a test binary in its package's directory.
func run(binary, directory, assets string) outcome {
	test := exec.Command(binary, "-test.v", "-test.timeout=15m")
	test.Dir = directory
	test.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "GINKGO_EDITOR_INTEGRATION=true")
	var output bytes.Buffer
	test.Stdout, test.Stderr = &output, &output
	begun := time.Now()
	// A suite that fails says so in its output.
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

// Seconds that one environment takes to start and stop, of several the median.
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

func command(name string, arguments ...string) string {
	output, err := exec.Command(name, arguments...).Output()
	check(err)
	return strings.TrimSpace(string(output))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(2)
	}
}
