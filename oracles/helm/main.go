// Command helm-oracle answers requests, one per line, with Go's text/template, sprig and Helm's own packages.
//
// Each line on standard input is one JSON request {"id": …, "op": …, …}; each line on standard output is the
// answer, in the same order: {"id": …, "ok": …}, {"id": …, "err": …, "kind": …} or {"id": …, "panic": …}.
// README.md lists the operations.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// request has the fields that all operations share; the operation decodes the rest from raw.
type request struct {
	ID json.RawMessage `json:"id"`
	Op string          `json:"op"`
	// TZ names the local time zone during this request (default UTC).
	TZ  string `json:"tz"`
	raw []byte
}

// decode reads the operation's own fields.
func (r *request) decode(into any) error {
	dec := json.NewDecoder(bytes.NewReader(r.raw))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return badRequest{err}
	}
	return nil
}

// answer is one line of output. Exactly one of OK, Err and Panic is meaningful.
type answer struct {
	ID    json.RawMessage `json:"id"`
	OK    any             `json:"ok,omitempty"`
	Err   *text           `json:"err,omitempty"`
	Kind  string          `json:"kind,omitempty"`
	Panic *text           `json:"panic,omitempty"`
	// Partial is the output produced before the error, for operations that have any.
	Partial any `json:"partial,omitempty"`
	// Log is what Helm logged during the request (coalescing warnings, skipped hooks).
	Log []text `json:"log,omitempty"`
}

// badRequest marks errors of the caller, so that they are never mistaken for an answer.
type badRequest struct{ error }

// kindError is an error with the stage at which it happened ("parse", "exec", …).
type kindError struct {
	error
	kind    string
	partial any
}

func (e kindError) Unwrap() error { return e.error }

type operation func(*request) (any, error)

var operations = map[string]operation{
	"template":      opTemplate,
	"functions":     opFunctions,
	"fmt":           opFmt,
	"date":          opDate,
	"regex":         opRegex,
	"yaml":          opYAML,
	"json":          opJSON,
	"toml":          opTOML,
	"strvals":       opStrvals,
	"semver":        opSemver,
	"render":        opRender,
	"helm-template": opHelmTemplate,
	"coalesce":      opCoalesce,
	"files":         opFiles,
	"schema":        opSchema,
	"lint":          opLint,
	"sort":          opSort,
	"helmignore":    opHelmignore,
	"kube-version":  opKubeVersion,
	"capabilities":  opCapabilities,
	"load":          opLoad,
}

func main() {
	list := flag.Bool("ops", false, "list the operations and exit")
	flag.Parse()
	if *list {
		fmt.Println(strings.Join(sortedKeys(operations), "\n"))
		return
	}
	// Runaway inputs must end this process with a message, rather than exhaust the machine.
	debug.SetMemoryLimit(2 << 30)
	debug.SetMaxStack(512 << 20)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helm-oracle:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	answers := bufio.NewWriterSize(out, 1<<20)
	enc := json.NewEncoder(answers)
	enc.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := enc.Encode(respond(line)); err != nil {
				return err
			}
			// Flush at once: if the next request ends this process, this answer must already be written.
			if err := answers.Flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return answers.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func respond(line []byte) (a answer) {
	req := request{raw: line}
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{Err: asText(err.Error()), Kind: "request"}
	}
	a.ID = req.ID
	op, ok := operations[req.Op]
	if !ok {
		a.Err, a.Kind = asText("unknown op "+req.Op), "request"
		return a
	}
	var logged bytes.Buffer
	log.SetOutput(&logged)
	log.SetFlags(0)
	time.Local = time.UTC
	defer func() {
		if r := recover(); r != nil {
			a = answer{ID: req.ID, Panic: asText(fmt.Sprint(r))}
		}
		for _, l := range strings.Split(strings.TrimRight(logged.String(), "\n"), "\n") {
			if l != "" {
				a.Log = append(a.Log, text(l))
			}
		}
	}()
	if req.TZ != "" {
		zone, err := time.LoadLocation(req.TZ)
		if err != nil {
			a.Err, a.Kind = asText(err.Error()), "request"
			return a
		}
		time.Local = zone
	}
	result, err := op(&req)
	if err != nil {
		a.Err = asText(err.Error())
		var bad badRequest
		var staged kindError
		switch {
		case errors.As(err, &bad):
			a.Kind = "request"
		case errors.As(err, &staged):
			a.Kind, a.Partial = staged.kind, staged.partial
		default:
			a.Kind = "error"
		}
		return a
	}
	a.OK = result
	return a
}
