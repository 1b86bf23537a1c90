// Command franz drives franz-go for the conformance tests; see package driver.
package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"highwater.invalid/goclients/driver"
)

type franz struct{ connection driver.Connection }

func main() {
	driver.Main(func(connection driver.Connection) driver.Client { return franz{connection} })
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acksOf = map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}

// with adds how it connects to other options.
func (f franz) with(options ...kgo.Opt) []kgo.Opt {
	one := f.connection
	options = append(
		options,
		kgo.SeedBrokers(strings.Split(one.Bootstrap, ",")...),
		kgo.ClientID("highwater-conformance"),
	)
	if one.TLS != nil {
		options = append(options, kgo.DialTLSConfig(one.TLS))
	}
	switch one.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: one.User, Pass: one.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: one.User, Pass: one.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: one.User, Pass: one.Password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: one.Token}.AsMechanism()))
	}
	return options
}

func (f franz) open(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(f.with(options...)...)
}

func (f franz) Produce(ctx context.Context, topic, codec string, acks int, records []driver.Record) error {
	options := []kgo.Opt{kgo.ProducerBatchCompression(codecs[codec]), kgo.RequiredAcks(acksOf[acks])}
	if acks != -1 {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if len(records) > 0 && records[0].Partition >= 0 {
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client, err := f.open(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, sending(topic, records)...).FirstErr()
}

func sending(topic string, records []driver.Record) []*kgo.Record {
	sent := make([]*kgo.Record, 0, len(records))
	for _, record := range records {
		one := &kgo.Record{
			Topic:     topic,
			Partition: record.Partition,
			Key:       record.Key,
			Value:     record.Value,
			Timestamp: record.Timestamp,
		}
		for _, header := range record.Headers {
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
		sent = append(sent, one)
	}
	return sent
}

func received(record *kgo.Record) driver.Record {
	one := driver.Record{
		Partition: record.Partition,
		Offset:    record.Offset,
		Timestamp: record.Timestamp,
		Key:       record.Key,
		Value:     record.Value,
	}
	for _, header := range record.Headers {
		one.Headers = append(one.Headers, driver.Header{Name: header.Key, Value: header.Value})
	}
	return one
}

func (f franz) Consume(ctx context.Context, topic string, count int, start int64, take func(driver.Record)) error {
	offset := kgo.NewOffset().AtStart()
	if start != driver.Beginning {
		offset = kgo.NewOffset().AfterMilli(start)
	}
	client, err := f.open(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(offset))
	if err != nil {
		return err
	}
	defer client.Close()
	for count > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			take(received(record))
			count--
		})
	}
	return nil
}

const nextGeneration = "opt_in_kafka_next_gen_balancer_beta"

func (f franz) Join(ctx context.Context, group, topic, protocol string, member driver.Member) error {
	assigned := map[int32]bool{}
	tell := func() {
		partitions := make([]int32, 0, len(assigned))
		for partition := range assigned {
			partitions = append(partitions, partition)
		}
		member.Assigned(partitions)
	}
	changed := func(holds bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			for _, partition := range partitions[topic] {
				if holds {
					assigned[partition] = true
				} else {
					delete(assigned, partition)
				}
			}
			tell()
		}
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(changed(true)),
		kgo.OnPartitionsRevoked(changed(false)),
		kgo.OnPartitionsLost(changed(false)),
	}
	if protocol == "consumer" {
		// The library's own switch for KIP-848, while it calls that a beta.
		options = append(options, kgo.WithContext(context.WithValue(context.Background(), nextGeneration, true)))
	}
	client, err := f.open(options...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	polled, ended := make(chan kgo.Fetches), make(chan struct{})
	// A poll that begins after the client has allowed rebalances holds them up again, and with them
	// the end of the client: wait for the last one.
	defer func() {
		stop()
		<-ended
		client.CloseAllowingRebalance()
	}()
	go func() {
		defer close(ended)
		for {
			fetches := client.PollFetches(ctx)
			select {
			case polled <- fetches:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case answer := <-member.Commits():
			answer <- client.CommitUncommittedOffsets(ctx)
		case fetches := <-polled:
			if err := fetches.Err(); err != nil && ctx.Err() == nil {
				return err
			}
			fetches.EachRecord(func(record *kgo.Record) { member.Received(received(record)) })
			client.AllowRebalance()
		}
	}
}

// Version is the guess of franz-go, which kminion shows.
func (f franz) Version(ctx context.Context) (string, error) {
	client, err := f.open()
	if err != nil {
		return "", err
	}
	defer client.Close()
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return "", err
	}
	if _, err := kadm.NewClient(client).BrokerMetadata(ctx); err != nil {
		return "", fmt.Errorf("metadata: %w", err)
	}
	return kversion.FromApiVersionsResponse(answer).VersionGuess(), nil
}
