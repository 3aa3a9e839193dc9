package initialize

import (
	"context"
	"strings"
)

func showPhase() Phase {
	return Phase{
		Name: "show-join-command", Short: "Print what to type next",
		Run: func(_ context.Context, e *Env) error {
			e.say("%s", e.next())
			return nil
		},
		Tell: func(*Env) string { return "print the commands by which machines join" },
	}
}

// next is what to type next, in kubeadm's words where they fit.
func (e *Env) next() string {
	var b strings.Builder
	b.WriteString("\nYour howdah control-plane has initialized successfully!\n\nTo start using your cluster, you need to run the following as a regular user:\n\n" +
		"  mkdir -p $HOME/.kube\n  sudo cp -i " + e.Folder.Admin() + " $HOME/.kube/config\n  sudo chown $(id -u):$(id -g) $HOME/.kube/config\n\n" +
		"Alternatively, if you are the root user, you can run:\n\n  export KUBECONFIG=" + e.Folder.Admin() + "\n")
	if e.Init.Machine.ServiceManager == "process" {
		b.WriteString("\nThis machine has no systemd: the control plane runs as a process that nobody starts at boot, nor again when it ends.\n" +
			"\"howdah init phase control-plane\" starts it; or have what looks after this machine's services run\n\n" +
			"  env $(grep -v '^#' " + e.Folder.Settings() + " | xargs) " + e.Init.Machine.Binary + " standalone\n")
	}
	for i, line := range e.lines {
		if e.SkipTokenPrint {
			line = hidden(line)
		}
		if i == 0 && e.Cluster.ControlPlaneEndpoint != "" {
			b.WriteString("\nYou can now join any number of control-plane machines, running the following command on each as root:\n\n  " + line + " \\\n    --control-plane")
			switch key := e.Init.CertificateKey; {
			case e.UploadCerts && e.SkipTokenPrint:
				b.WriteString(" --certificate-key <value withheld>\n")
			case e.UploadCerts:
				b.WriteString(" --certificate-key " + key + "\n\n" +
					"Please note that the certificate-key gives access to cluster sensitive data, keep it secret!\n" +
					"As a safeguard, uploaded certs will be deleted in two hours; if necessary, you can use\n" +
					"\"howdah init phase upload-certs --upload-certs\" to reload certs afterward.\n")
			default:
				b.WriteString("\n\nafter \"howdah init phase upload-certs --upload-certs\", which prints the --certificate-key that it takes.\n")
			}
		}
		b.WriteString("\nThen you can join any number of nodes by running the following on each as root:\n\n  " + line + "\n")
	}
	return b.String()
}

// hidden is a command without its token.
func hidden(line string) string {
	words := strings.Fields(line)
	for i, word := range words {
		if word == "--token" && i+1 < len(words) {
			words[i+1] = "<value withheld>"
		}
	}
	return strings.Join(words, " ")
}
