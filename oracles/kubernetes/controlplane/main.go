// Command control-plane starts and stops a real Kubernetes control plane on loopback ports.
//
// It uses only the standard library, so that it builds in a second; the build script provides the
// programs that it starts.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

const usage = `usage:
  control-plane up DIR [flags]              start, wait until it serves, write DIR/kubeconfig
  control-plane down DIR [--keep-logs]      stop and remove what up made
  control-plane status DIR                  what runs (exit 0 if all of it does)
  control-plane run DIR [flags] -- COMMAND  up, COMMAND with KUBECONFIG set, down

up on a running control plane keeps it as it is; on a dead one it cleans up and starts anew.
DIR/authentication.yaml is the server's AuthenticationConfiguration: an issuer that is added to it is trusted from then on.

flags:
  --controller-manager  also run kube-controller-manager
  --scheduler           also run kube-scheduler
  --kwok                also run kwok, which plays the nodes and their kubelets
  --nodes N             with --kwok: how many nodes to make (default 2)
  --all                 all three
  --fresh               stop and remove a running one first
  --token LINE          a user by its bearer token: TOKEN,USER,UID[,GROUP]; may be repeated
`

type options struct {
	dir                                string
	controllerManager, scheduler, kwok bool
	fresh, keepLogs                    bool
	nodes                              int
	command                            []string
	tokens                             []string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	verb := args[0]
	opts, err := parse(args[1:])
	if err != nil {
		return err
	}
	switch verb {
	case "up":
		return up(opts)
	case "down":
		return down(opts.dir, opts.keepLogs)
	case "status":
		return status(opts.dir)
	case "run":
		return runCommand(opts)
	default:
		return fmt.Errorf("unknown command %q\n%s", verb, usage)
	}
}

// parse accepts flags before and after DIR.
func parse(args []string) (options, error) {
	var opts options
	var all bool
	flags := flag.NewFlagSet("control-plane", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.BoolVar(&opts.controllerManager, "controller-manager", false, "")
	flags.BoolVar(&opts.scheduler, "scheduler", false, "")
	flags.BoolVar(&opts.kwok, "kwok", false, "")
	flags.BoolVar(&all, "all", false, "")
	flags.BoolVar(&opts.fresh, "fresh", false, "")
	flags.BoolVar(&opts.keepLogs, "keep-logs", false, "")
	flags.IntVar(&opts.nodes, "nodes", 2, "")
	flags.Func("token", "", func(line string) error {
		opts.tokens = append(opts.tokens, line)
		return nil
	})
	var positional []string
	for i, arg := range args {
		if arg == "--" {
			args, opts.command = args[:i], args[i+1:]
			break
		}
	}
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return opts, err
		}
		if args = flags.Args(); len(args) > 0 {
			positional, args = append(positional, args[0]), args[1:]
		}
	}
	if len(positional) != 1 {
		return opts, fmt.Errorf("exactly one DIR is needed\n%s", usage)
	}
	if all {
		opts.controllerManager, opts.scheduler, opts.kwok = true, true, true
	}
	dir, err := filepath.Abs(positional[0])
	opts.dir = dir
	return opts, err
}

func runCommand(opts options) error {
	if len(opts.command) == 0 {
		return fmt.Errorf("run needs a command behind --\n%s", usage)
	}
	// The command receives the terminal's signals directly; this process keeps running to clean up.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
	if err := up(opts); err != nil {
		return err
	}
	command := exec.Command(opts.command[0], opts.command[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(opts.dir, "kubeconfig"))
	err := command.Run()
	return errors.Join(err, down(opts.dir, opts.keepLogs))
}
