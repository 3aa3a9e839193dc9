package apiserver

import (
	"context"

	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/custom/conversion"
	"howdah.dev/services/apiserver/internal/definitions"
	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/podnet"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/webhook"
)

// define makes the table and the cache follow the custom resource definitions.
func (s *Server) define(table *registry.Table) {
	caller := webhook.New(webhook.Config{
		Dialer: &podnet.Dialer{Objects: objects.Objects{Table: table, Cache: s.cache}, Nodes: s.cfg.NodeDialer}, Registerer: s.cfg.Registerer,
	})
	s.follower = definitions.NewFollower(table, custom.Config{
		Now: s.cfg.Clock.Now, Meta: s.documents.Meta, Converter: conversion.New(caller, s.cfg.Registerer).For,
	}, s.fixedDefinitions()...)
	s.cache.Define(s.follower)
	if s.cfg.Registerer != nil {
		s.cfg.Registerer.MustRegister(s.follower)
	}
}

// keepDefinitions writes the status of the definitions, and deletes the objects of those that are deleted.
func (s *Server) keepDefinitions(ctx context.Context) error {
	return (&definitions.Keeper{Follower: s.follower, API: s.objects, Cache: s.cache, Clock: s.cfg.Clock}).Run(ctx)
}
