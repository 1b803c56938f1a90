"""Decisions of the proxy: conversion, validation, routes, handles. Pure."""
