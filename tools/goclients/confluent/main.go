// Command confluent drives librdkafka 1.8.2, the oldest that Kafka 4 means to serve (KIP-896), for the conformance tests, by
// confluent-kafka-go, whose module has it as a library for Linux on x86-64; see package driver.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/kafka"

	"highwater.invalid/goclients/driver"
)

const (
	timeoutMs = 30_000
	pollMs    = 100
)

type client struct{ bootstrap string }

func main() {
	driver.Main(func(connection driver.Connection) driver.Client { return client{connection.Bootstrap} })
}

func (c client) config(more kafka.ConfigMap) *kafka.ConfigMap {
	config := kafka.ConfigMap{"bootstrap.servers": c.bootstrap, "client.id": "highwater-conformance"}
	for name, value := range more {
		config[name] = value
	}
	return &config
}

func (c client) Produce(_ context.Context, topic, codec string, acks int, records []driver.Record) error {
	producer, err := kafka.NewProducer(c.config(kafka.ConfigMap{
		"compression.codec": codec,
		"acks":              acks,
		"linger.ms":         50,
	}))
	if err != nil {
		return err
	}
	defer producer.Close()
	return send(producer, topic, records)
}

// send returns when all records are delivered.
func send(producer *kafka.Producer, topic string, records []driver.Record) error {
	deliveries := make(chan kafka.Event, len(records))
	for _, record := range records {
		message := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: record.Partition},
			Timestamp:      record.Timestamp,
			Key:            record.Key,
			Value:          record.Value,
		}
		for _, header := range record.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
		}
		if err := producer.Produce(message, deliveries); err != nil {
			return err
		}
	}
	for range records {
		select {
		case event := <-deliveries:
			if err := event.(*kafka.Message).TopicPartition.Error; err != nil {
				return err
			}
		case <-time.After(timeoutMs * time.Millisecond):
			return errors.New("a record was not delivered in time")
		}
	}
	return nil
}

func (c client) Transact(
	ctx context.Context, topic, id string, work <-chan driver.Transaction, tell func(outcome string, err error),
) error {
	producer, err := kafka.NewProducer(c.config(kafka.ConfigMap{"transactional.id": id}))
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.InitTransactions(ctx); err != nil {
		return err
	}
	for one := range work {
		if err := producer.BeginTransaction(); err != nil {
			return err
		}
		if err := send(producer, topic, one.Records); err != nil {
			return err
		}
		if one.Abort {
			if err := producer.AbortTransaction(ctx); err != nil {
				return err
			}
			tell(driver.Aborted, nil)
			continue
		}
		if err := producer.CommitTransaction(ctx); err != nil {
			return err
		}
		tell(driver.Committed, nil)
	}
	return nil
}

func received(message *kafka.Message) driver.Record {
	one := driver.Record{
		Partition: message.TopicPartition.Partition,
		Offset:    int64(message.TopicPartition.Offset),
		Timestamp: message.Timestamp,
		Key:       message.Key,
		Value:     message.Value,
	}
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, driver.Header{Name: header.Key, Value: header.Value})
	}
	return one
}

func (c client) Consume(ctx context.Context, topic string, count int, start int64, take func(driver.Record)) error {
	consumer, err := kafka.NewConsumer(c.config(kafka.ConfigMap{
		"group.id":           "confluent",
		"enable.auto.commit": false,
	}))
	if err != nil {
		return err
	}
	defer consumer.Close()
	metadata, err := consumer.GetMetadata(&topic, false, timeoutMs)
	if err != nil {
		return err
	}
	var wanted []kafka.TopicPartition
	for _, partition := range metadata.Topics[topic].Partitions {
		offset := kafka.OffsetBeginning
		if start != driver.Beginning {
			offset = kafka.Offset(start)
		}
		wanted = append(wanted, kafka.TopicPartition{Topic: &topic, Partition: partition.ID, Offset: offset})
	}
	if start != driver.Beginning {
		if wanted, err = consumer.OffsetsForTimes(wanted, timeoutMs); err != nil {
			return err
		}
	}
	if err := consumer.Assign(wanted); err != nil {
		return err
	}
	for count > 0 && ctx.Err() == nil {
		message, err := consumer.ReadMessage(pollMs * time.Millisecond)
		if err == nil {
			take(received(message))
			count--
		} else if told, ok := err.(kafka.Error); !ok || told.Code() != kafka.ErrTimedOut {
			return err
		}
	}
	return ctx.Err()
}

func (c client) Join(ctx context.Context, group, topic, protocol string, member driver.Member) error {
	if protocol == "consumer" {
		return fmt.Errorf("librdkafka 1.8 does not have KIP-848")
	}
	consumer, err := kafka.NewConsumer(c.config(kafka.ConfigMap{
		"group.id":              group,
		"enable.auto.commit":    false,
		"auto.offset.reset":     "earliest",
		"session.timeout.ms":    10_000,
		"heartbeat.interval.ms": 500,
	}))
	if err != nil {
		return err
	}
	rebalanced := func(consumer *kafka.Consumer, event kafka.Event) error {
		switch changed := event.(type) {
		case kafka.AssignedPartitions:
			if err := consumer.Assign(changed.Partitions); err != nil {
				return err
			}
			partitions := []int32{}
			for _, one := range changed.Partitions {
				partitions = append(partitions, one.Partition)
			}
			member.Assigned(partitions)
		case kafka.RevokedPartitions:
			member.Assigned([]int32{})
			return consumer.Unassign()
		}
		return nil
	}
	if err := consumer.Subscribe(topic, rebalanced); err != nil {
		return err
	}
	for ctx.Err() == nil {
		switch event := consumer.Poll(pollMs).(type) {
		case *kafka.Message:
			member.Received(received(event))
		case kafka.Error:
			if event.IsFatal() {
				return event
			}
		}
		select {
		case answer := <-member.Commits():
			_, err := consumer.Commit()
			answer <- err
		default:
		}
	}
	return consumer.Close()
}

// Version is the library's: it does not guess the broker's.
func (c client) Version(context.Context) (string, error) {
	_, version := kafka.LibraryVersion()
	return version, nil
}
