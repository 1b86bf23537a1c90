// Command sarama drives sarama for the conformance tests; see package driver.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"highwater.invalid/goclients/driver"
)

type client struct{ connection driver.Connection }

func main() {
	driver.Main(func(connection driver.Connection) driver.Client { return client{connection} })
}

func (c client) bootstrap() []string { return []string{c.connection.Bootstrap} }

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (c client) config() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "highwater-conformance"
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	secure(config, c.connection)
	return config
}

func (c client) Produce(_ context.Context, topic, codec string, acks int, records []driver.Record) error {
	config := c.config()
	config.Producer.Compression = codecs[codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(acks)
	if acks == -1 {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if len(records) > 0 && records[0].Partition >= 0 {
		config.Producer.Partitioner = sarama.NewManualPartitioner
	}
	producer, err := sarama.NewSyncProducer(c.bootstrap(), config)
	if err != nil {
		return err
	}
	err = producer.SendMessages(sending(topic, records))
	return errors.Join(err, producer.Close())
}

func sending(topic string, records []driver.Record) []*sarama.ProducerMessage {
	sent := make([]*sarama.ProducerMessage, 0, len(records))
	for _, record := range records {
		one := &sarama.ProducerMessage{
			Topic:     topic,
			Partition: record.Partition,
			Timestamp: record.Timestamp,
			Key:       encoder(record.Key),
			Value:     encoder(record.Value),
		}
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
		}
		sent = append(sent, one)
	}
	return sent
}

func encoder(value []byte) sarama.Encoder {
	if value == nil {
		return nil
	}
	return sarama.ByteEncoder(value)
}

func received(message *sarama.ConsumerMessage) driver.Record {
	one := driver.Record{
		Partition: message.Partition,
		Offset:    message.Offset,
		Timestamp: message.Timestamp,
		Key:       message.Key,
		Value:     message.Value,
	}
	for _, header := range message.Headers {
		one.Headers = append(one.Headers, driver.Header{Name: string(header.Key), Value: header.Value})
	}
	return one
}

func (c client) Consume(ctx context.Context, topic string, count int, start int64, take func(driver.Record)) error {
	connected, err := sarama.NewClient(c.bootstrap(), c.config())
	if err != nil {
		return err
	}
	defer connected.Close()
	consumer, err := sarama.NewConsumerFromClient(connected)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partitions, err := connected.Partitions(topic)
	if err != nil {
		return err
	}
	messages := make(chan *sarama.ConsumerMessage)
	for _, partition := range partitions {
		offset := sarama.OffsetOldest
		if start != driver.Beginning {
			if offset, err = connected.GetOffset(topic, partition, start); err != nil {
				return err
			}
		}
		reader, err := consumer.ConsumePartition(topic, partition, offset)
		if err != nil {
			return err
		}
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				messages <- message
			}
		}()
	}
	for ; count > 0; count-- {
		select {
		case message := <-messages:
			take(received(message))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c client) Join(ctx context.Context, group, topic, _ string, member driver.Member) error {
	config := c.config()
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	consumer, err := sarama.NewConsumerGroup(c.bootstrap(), group, config)
	if err != nil {
		return err
	}
	handler := &handler{topic: topic, member: member}
	go handler.answerCommits(ctx)
	for ctx.Err() == nil {
		if err := consumer.Consume(ctx, []string{topic}, handler); err != nil && ctx.Err() == nil {
			return errors.Join(err, consumer.Close())
		}
	}
	return consumer.Close()
}

// handler tells of one member's sessions; sarama calls it from a goroutine a partition.
type handler struct {
	topic   string
	member  driver.Member
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.mutex.Lock()
	h.session = session
	h.mutex.Unlock()
	h.member.Assigned(session.Claims()[h.topic])
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		h.member.Received(received(message))
		session.MarkMessage(message, "")
	}
	return nil
}

func (h *handler) answerCommits(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case answer := <-h.member.Commits():
			h.mutex.Lock()
			h.session.Commit()
			h.mutex.Unlock()
			answer <- nil
		}
	}
}

// Version is the newest that sarama implements: it does not guess the broker's.
func (c client) Version(context.Context) (string, error) {
	connected, err := sarama.NewClient(c.bootstrap(), c.config())
	if err != nil {
		return "", err
	}
	return sarama.MaxVersion.String(), connected.Close()
}
