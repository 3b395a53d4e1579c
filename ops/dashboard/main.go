// Command dashboard writes ops/dashboard.json, the Grafana dashboard of Card
// Gateway, to standard output. The panels are defined in panels.go; this file
// converts them to the JSON that Grafana reads.
//
//	go run ./ops/dashboard > ops/dashboard.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(dashboard(rows)); err != nil {
		fmt.Fprintln(os.Stderr, "writing the dashboard:", err)
		os.Exit(1)
	}
}

// object is a JSON object.
type object = map[string]any

// Width of the dashboard and heights of panels, in Grafana's grid units.
const (
	gridWidth   = 24
	statHeight  = 4
	graphHeight = 8
)

var source = object{"type": "prometheus", "uid": "${datasource}"}

func dashboard(rows []row) object {
	return object{
		"uid": "card-gateway", "title": "Card Gateway", "tags": []string{"card-gateway"},
		"description":   "Is the gateway up, are clients refused and why, and what does it cost? Each panel says what good looks like.",
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1,
		"refresh": "30s", "timezone": "browser", "time": object{"from": "now-6h", "to": "now"},
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			labelValues("job", "Job", "card_gateway_store_up"),
			labelValues("instance", "Instance", `card_gateway_store_up{job=~"$job"}`),
		}},
		"links": []object{
			{"type": "link", "title": "Runbooks", "url": guides + "runbooks/README.md", "targetBlank": true},
			{"type": "link", "title": "Operations", "url": guides + "operations.md", "targetBlank": true},
		},
		"annotations": object{"list": []object{{
			"name": "Alerts", "datasource": source, "enable": true, "iconColor": "red",
			"expr": `ALERTS{alertname=~"CardGateway.+",alertstate="firing"}`, "titleFormat": "{{alertname}}",
		}}},
		"panels": panels(rows),
	}
}

// guides is where the guides are.
const guides = "https://github.com/card-gateway/card-gateway/blob/main/docs/"

// labelValues is a variable that chooses among the values of a label of a series.
func labelValues(label, title, series string) object {
	expr := fmt.Sprintf("label_values(%s, %s)", series, label)
	return object{
		"name": label, "label": title, "type": "query", "datasource": source,
		"query": object{"query": expr, "refId": label}, "definition": expr,
		"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
		"current": object{"text": "All", "value": "$__all"},
	}
}

// panels returns the panels with their positions: the rows from top to bottom,
// the panels of a row from left to right.
func panels(rows []row) []object {
	var all []object
	id, y := 0, 0
	for _, r := range rows {
		id++
		all = append(all, object{
			"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1},
		})
		y++
		width := gridWidth / len(r.panels)
		for i, p := range r.panels {
			id++
			all = append(all, p.json(id, object{"x": i * width, "y": y, "w": width, "h": p.height()}))
		}
		y += r.panels[0].height()
	}
	return all
}

func (p panel) height() int {
	if p.kind == stat {
		return statHeight
	}
	return graphHeight
}

func (p panel) json(id int, position object) object {
	targets := []object{}
	for i, q := range p.queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "range": p.kind != stat, "instant": p.kind == stat}
		if p.kind == heat {
			target["format"] = "heatmap"
		}
		if p.kind != stat && strings.Contains(q.expr, "_bucket{") {
			target["exemplar"] = true
		}
		targets = append(targets, target)
	}
	return object{
		"id": id, "type": string(p.kind), "title": p.title, "description": p.good,
		"datasource": source, "gridPos": position, "targets": targets,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": []object{}},
		"options":     p.options(),
	}
}

func (p panel) defaults() object {
	d := object{"unit": p.unit, "min": 0}
	if p.signed {
		delete(d, "min")
	}
	switch p.kind {
	case stat:
		steps := []object{{"color": "green", "value": nil}}
		if p.reversed {
			steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": p.bad}}
		} else if p.bad > 0 {
			steps = append(steps, object{"color": "red", "value": p.bad})
		}
		d["thresholds"] = object{"mode": "absolute", "steps": steps}
		d["color"] = object{"mode": "thresholds"}
	case graph:
		d["color"] = object{"mode": "palette-classic"}
		stacking := "none"
		if p.stacked {
			stacking = "normal"
		}
		d["custom"] = object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": stacking, "group": "A"}}
	}
	return d
}

func (p panel) options() object {
	switch p.kind {
	case stat:
		return object{"colorMode": "background", "graphMode": "none", "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	case heat:
		return object{"calculate": false, "yAxis": object{"unit": p.unit}, "cellGap": 1, "color": object{"mode": "scheme", "scheme": "Oranges"}}
	default:
		return object{
			"legend":  object{"displayMode": "table", "placement": "right", "calcs": []string{"mean", "max"}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	}
}
