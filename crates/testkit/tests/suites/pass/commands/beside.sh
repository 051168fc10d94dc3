#!/bin/sh
test -f 00-run.yaml
