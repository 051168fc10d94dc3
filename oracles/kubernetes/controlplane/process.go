package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startOrder is the order in which components start; they stop in the reverse order.
var startOrder = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}

// process is a component recorded in a pid file in DIR/run.
type process struct {
	dir, name string
	pid       int
	// birth is the start time that the kernel reports; a reused pid has a different one.
	birth string
}

func start(dir, name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, "log", name+".log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(program, args...)
	command.Dir = dir
	command.Stdout, command.Stderr = log, log
	// Start a new session: the control plane must outlive the shell that called up.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go command.Wait()
	p := &process{dir: dir, name: name, pid: command.Process.Pid}
	p.birth, _ = birth(p.pid)
	record := fmt.Sprintf("%d %s\n", p.pid, p.birth)
	return p, os.WriteFile(p.file(), []byte(record), 0o600)
}

func (p *process) file() string { return filepath.Join(p.dir, "run", p.name+".pid") }

// find reads a component's pid file; it returns nil if there is none.
func find(dir, name string) *process {
	p := &process{dir: dir, name: name}
	text, err := os.ReadFile(p.file())
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return nil
	}
	p.pid, _ = strconv.Atoi(fields[0])
	p.birth = fields[1]
	return p
}

func (p *process) alive() bool {
	now, zombie := birth(p.pid)
	return now != "" && now == p.birth && !zombie
}

// stop sends SIGTERM, waits, sends SIGKILL if necessary, and removes the pid file.
func (p *process) stop() error {
	defer os.Remove(p.file())
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, 5 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		if !p.alive() {
			return nil
		}
		if err := syscall.Kill(p.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping %s: %w", p.name, err)
		}
		for deadline := time.Now().Add(step.wait); time.Now().Before(deadline) && p.alive(); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if p.alive() {
		return fmt.Errorf("%s (pid %d) does not end", p.name, p.pid)
	}
	return nil
}

// logTail returns the end of a component's log for an error message.
func logTail(dir, name string) string {
	text, _ := os.ReadFile(filepath.Join(dir, "log", name+".log"))
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) > 12 {
		lines = lines[len(lines)-12:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// birth returns the kernel's start time of a process, empty if there is none.
func birth(pid int) (ticks string, zombie bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The second field is the command in parentheses and may contain spaces.
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return "", false
	}
	fields := strings.Fields(string(text[end+1:]))
	if len(fields) < 20 {
		return "", false
	}
	return fields[19], fields[0] == "Z"
}
