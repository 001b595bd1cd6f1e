"""Models: trees and forests as arrays, their text, dictionaries and files."""
