package main

import (
	"io/fs"
	"time"
)

// entry is an fs.FileInfo with only a name, for rules that need no more.
type entry struct {
	name string
	dir  bool
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return 0 }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.dir }
func (e entry) Sys() any           { return nil }

func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
