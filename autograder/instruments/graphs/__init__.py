"""Pictures of jaxprs and HLO as Mermaid flow charts."""
