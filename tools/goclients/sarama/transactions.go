package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"highwater.invalid/goclients/driver"
)

const transactionTimeout = 30 * time.Second

// Transact ends at the first error: what the others of this driver outlive is tried with franz-go.
func (c client) Transact(ctx context.Context, topic, id string, work <-chan driver.Transaction, tell func(string, error)) error {
	config := c.config()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = id
	config.Producer.Transaction.Timeout = transactionTimeout
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(c.bootstrap(), config)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return producer.Close()
		case one, more := <-work:
			if !more {
				return producer.Close()
			}
			outcome, err := carryOut(producer, topic, one)
			if err != nil {
				return errors.Join(err, producer.Close())
			}
			tell(outcome, nil)
		}
	}
}

func carryOut(producer sarama.SyncProducer, topic string, one driver.Transaction) (string, error) {
	if err := producer.BeginTxn(); err != nil {
		return "", err
	}
	if err := producer.SendMessages(sending(topic, one.Records)); err != nil {
		return "", err
	}
	if one.Abort {
		return driver.Aborted, producer.AbortTxn()
	}
	return driver.Committed, producer.CommitTxn()
}
