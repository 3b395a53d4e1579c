// Package cardunit is the command card-unit: it runs a command of the gateway as
// the systemd unit runs the gateway.
package cardunit
