"""Pictures of jaxprs and HLO: a graph of what is computed, laid out by Graphviz and drawn as SVG."""
