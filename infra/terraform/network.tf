# Workers have no public address: they reach Google's services, one another, and nothing else.

resource "google_compute_network" "workers" {
  name                    = "${var.name}-workers"
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "workers" {
  name                       = "${var.name}-workers"
  network                    = google_compute_network.workers.id
  region                     = var.region
  ip_cidr_range              = "10.64.0.0/20"
  private_ip_google_access   = true
  private_ipv6_google_access = "ENABLE_OUTBOUND_VM_ACCESS_TO_GOOGLE"

  log_config {
    aggregation_interval = "INTERVAL_10_MIN"
    flow_sampling        = 0.1
    metadata             = "INCLUDE_ALL_METADATA"
  }
}

resource "google_compute_firewall" "shuffle" {
  name        = "${var.name}-shuffle"
  description = "Dataflow's workers exchange rows with one another."
  network     = google_compute_network.workers.id
  direction   = "INGRESS"
  source_tags = ["dataflow"]
  target_tags = ["dataflow"]

  allow {
    protocol = "tcp"
    ports    = ["12345", "12346"]
  }
}
