package upgrade

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print tells a state and its plan.
func Print(out io.Writer, s State, p Plan) error {
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tNAME\tCURRENT\tTARGET\tSTATE")
	for _, c := range Sorted(s.Components) {
		state := "ok"
		if !c.Alive {
			state = "silent"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Kind, c.Name, or(c.Version, "<unknown>"), p.Target, state)
	}
	state := "ok"
	if s.Schema.Err != nil {
		state = "refused"
	} else if len(s.Schema.Missing) > 0 {
		state = "behind"
	}
	fmt.Fprintf(w, "schema\tdatabase\t%d\t%d\t%s\n", s.Schema.Applied, max(s.Schema.Known, s.Schema.Applied), state)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range p.Warnings {
		fmt.Fprintln(out, "warning:", text)
	}
	switch {
	case len(p.Problems) > 0:
		fmt.Fprintln(out, "\nThe upgrade is refused:")
		for _, problem := range p.Problems {
			fmt.Fprintln(out, "  -", problem)
		}
	case len(p.Steps) == 0:
		fmt.Fprintf(out, "\nAll is of %s. There is nothing to do.\n", p.Target)
	default:
		fmt.Fprintln(out, "\nTo be done, in this order (a backup of the database first: --backup FILE, or pg_dump):")
		for i, step := range p.Steps {
			fmt.Fprintf(out, "  %d. %s", i+1, step.What)
			if step.Command != "" {
				fmt.Fprintf(out, ": %s", step.Command)
			}
			fmt.Fprintln(out)
		}
	}
	return nil
}
