"""The resource manager of a cloudlet: it is told by notify what is wanted there, has a platform do
it, and says how far it has come.

In reading order: `platform` (what a platform promises), `care` (which word of the controller leads
to which work), `replica` (what the controller has told), `reports` (what is said back), `stream`
(how both travel), `commands` (what is run in containers), `strays`
(what was made and forgotten), `crm` (all of it together). Platforms:
`simulated`, and `kaas` over `manifests`."""
