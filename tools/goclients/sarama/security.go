package main

import (
	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"highwater.invalid/goclients/driver"
)

// secure says how a client connects and logs in.
func secure(config *sarama.Config, connection driver.Connection) {
	config.Net.TLS.Enable = connection.TLS != nil
	config.Net.TLS.Config = connection.TLS
	if connection.Mechanism == "" {
		return
	}
	login := &config.Net.SASL
	login.Enable = true
	login.Mechanism = sarama.SASLMechanism(connection.Mechanism)
	login.User, login.Password = connection.User, connection.Password
	switch connection.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA256} }
	case sarama.SASLTypeSCRAMSHA512:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA512} }
	case sarama.SASLTypeOAuth:
		login.TokenProvider = token(connection.Token)
	}
}

// conversation is one login by SCRAM; sarama leaves SCRAM to others.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}

// token is always the same one.
type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}
