package driver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
)

// Connection is where a client begins, and how it shows who it is.
type Connection struct {
	Bootstrap string
	// TLS is nil without TLS.
	TLS *tls.Config
	// Mechanism is one of SASL, or empty without a login.
	Mechanism, User, Password string
	// Token is that of OAUTHBEARER.
	Token string
}

// security is the part of a request that every command takes. Files are PEM.
type security struct {
	TLS *struct {
		CA   string `json:"ca"`
		Cert string `json:"cert"`
		Key  string `json:"key"`
	} `json:"tls"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Token     string `json:"token"`
}

// connectionOf reads the object "security" of a request; without it there is neither TLS nor a login.
func connectionOf(bootstrap string, request []byte) (Connection, error) {
	var asked struct {
		Security security `json:"security"`
	}
	if err := json.Unmarshal(request, &asked); err != nil {
		return Connection{}, err
	}
	one := asked.Security
	connection := Connection{
		Bootstrap: bootstrap,
		Mechanism: one.Mechanism,
		User:      one.User,
		Password:  one.Password,
		Token:     one.Token,
	}
	if one.TLS == nil {
		return connection, nil
	}
	connection.TLS = &tls.Config{}
	if one.TLS.CA != "" {
		text, err := os.ReadFile(one.TLS.CA)
		if err != nil {
			return connection, err
		}
		connection.TLS.RootCAs = x509.NewCertPool()
		if !connection.TLS.RootCAs.AppendCertsFromPEM(text) {
			return connection, fmt.Errorf("%s: no certificate", one.TLS.CA)
		}
	}
	if one.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(one.TLS.Cert, one.TLS.Key)
		if err != nil {
			return connection, err
		}
		connection.TLS.Certificates = []tls.Certificate{pair}
	}
	return connection, nil
}
