// Package cardunit is the command card-unit: it runs a command of the gateway as
// the systemd unit runs the gateway.
//
// Begin with unit, which reads the file of the unit.
package cardunit
