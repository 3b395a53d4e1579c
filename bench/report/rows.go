// Package report reads and writes what a bench run has measured, as CSV, and
// turns it into tables and plots.
package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// A Row has the figures of one server in one round of one scenario. Costs are
// per answered request.
type Row struct {
	Scenario, Server                string
	Round                           int
	Body, Connections, Keys, Nonces int
	Rate                            int    // requests per second that came due; 0: as fast as answers came
	Outcome                         string // the outcome of every request: accepted, signature, replayed, limited
	Requests                        int
	PerSecond                       float64 // requests
	CPU, RedisCPU                   float64 // µs of the server and of its Redis
	IssuerCPU, LoadCPU              float64 // µs of the shared programs: the issuer and the load tool
	P50, P99, P999                  float64 // ms; at a rate, from the time when a request was due
	Resident, RedisResident         float64 // MiB
}

// TotalCPU returns the CPU of the server and of its Redis together.
func (r *Row) TotalCPU() float64 { return r.CPU + r.RedisCPU }

// A column describes a field in the CSV. One of its three functions is set.
type column struct {
	name   string
	text   func(*Row) *string
	whole  func(*Row) *int
	number func(*Row) *float64
}

var columns = []column{
	{name: "scenario", text: func(r *Row) *string { return &r.Scenario }},
	{name: "server", text: func(r *Row) *string { return &r.Server }},
	{name: "round", whole: func(r *Row) *int { return &r.Round }},
	{name: "body_bytes", whole: func(r *Row) *int { return &r.Body }},
	{name: "connections", whole: func(r *Row) *int { return &r.Connections }},
	{name: "keys", whole: func(r *Row) *int { return &r.Keys }},
	{name: "live_nonces", whole: func(r *Row) *int { return &r.Nonces }},
	{name: "rate", whole: func(r *Row) *int { return &r.Rate }},
	{name: "outcome", text: func(r *Row) *string { return &r.Outcome }},
	{name: "requests", whole: func(r *Row) *int { return &r.Requests }},
	{name: "requests_per_second", number: func(r *Row) *float64 { return &r.PerSecond }},
	{name: "server_cpu_us", number: func(r *Row) *float64 { return &r.CPU }},
	{name: "redis_cpu_us", number: func(r *Row) *float64 { return &r.RedisCPU }},
	{name: "issuer_cpu_us", number: func(r *Row) *float64 { return &r.IssuerCPU }},
	{name: "load_cpu_us", number: func(r *Row) *float64 { return &r.LoadCPU }},
	{name: "p50_ms", number: func(r *Row) *float64 { return &r.P50 }},
	{name: "p99_ms", number: func(r *Row) *float64 { return &r.P99 }},
	{name: "p999_ms", number: func(r *Row) *float64 { return &r.P999 }},
	{name: "server_resident_mib", number: func(r *Row) *float64 { return &r.Resident }},
	{name: "redis_resident_mib", number: func(r *Row) *float64 { return &r.RedisResident }},
}

func (c *column) write(r *Row) string {
	switch {
	case c.text != nil:
		return *c.text(r)
	case c.whole != nil:
		return strconv.Itoa(*c.whole(r))
	}
	return strconv.FormatFloat(*c.number(r), 'f', -1, 64)
}

func (c *column) read(r *Row, text string) (err error) {
	switch {
	case c.text != nil:
		*c.text(r) = text
	case c.whole != nil:
		*c.whole(r), err = strconv.Atoi(text)
	default:
		*c.number(r), err = strconv.ParseFloat(text, 64)
	}
	return err
}

// Results are the rows of one bench run, and a description of the machine in
// lines.
type Results struct {
	Machine []string
	Rows    []Row
}

// round3 keeps three decimals, which is more than any figure here is good for.
func round3(f float64) float64 { return math.Round(f*1000) / 1000 }

// Write writes the file: the machine in lines that begin with #, then the rows.
func (r *Results) Write(path string) error {
	var out bytes.Buffer
	for _, line := range r.Machine {
		fmt.Fprintf(&out, "# %s\n", line)
	}
	w := csv.NewWriter(&out)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.name
	}
	_ = w.Write(record) // into memory
	for _, row := range r.Rows {
		for i, c := range columns {
			if c.number != nil {
				*c.number(&row) = round3(*c.number(&row))
			}
			record[i] = c.write(&row)
		}
		_ = w.Write(record)
	}
	w.Flush()
	return os.WriteFile(path, out.Bytes(), 0o644) //nolint:gosec // figures, for all to read
}

// Read reads such a file.
func Read(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	results := new(Results)
	for line := range strings.Lines(string(text)) {
		if line, found := strings.CutPrefix(line, "# "); found {
			results.Machine = append(results.Machine, strings.TrimSpace(line))
		}
	}
	in := csv.NewReader(bytes.NewReader(text))
	in.Comment, in.FieldsPerRecord = '#', len(columns)
	records, err := in.ReadAll()
	if err != nil || len(records) == 0 {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for i, c := range columns {
		if records[0][i] != c.name {
			return nil, fmt.Errorf("reading %s: column %d is %s, want %s", path, i+1, records[0][i], c.name)
		}
	}
	for _, record := range records[1:] {
		var row Row
		for i, c := range columns {
			if err := c.read(&row, record[i]); err != nil {
				return nil, fmt.Errorf("reading %s: %s: %w", path, c.name, err)
			}
		}
		results.Rows = append(results.Rows, row)
	}
	return results, nil
}
