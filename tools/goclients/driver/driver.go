// Package driver is what the drivers of Go clients have in common: requests in JSON, answers in lines.
//
//	franz COMMAND BOOTSTRAP REQUEST, and the same with sarama or confluent
//
// BOOTSTRAP is one address, or several with commas between them (franz).
//
// REQUEST is JSON, or "-" to read it from stdin. Keys, values and header values are base64.
//
//	produce {topic, codec, acks, messages}   sends, exits 0 when acknowledged
//	consume {topic, count, start}            prints `count` records, one JSON object per line
//	join {group, topic, protocol}            prints events until SIGTERM; the line "commit" commits
//	transact {topic, transactional_id}       a transaction for each line {abort, messages}: prints its outcome
//	copy {topic, output, group, transactional_id, prefix}
//	                                         copies in transactions until SIGTERM, prints their outcomes
//	version {}                               prints the version of Kafka that it takes the broker for
//
// Every request may have {security: {tls: {ca, cert, key}, mechanism, user, password, token}}: connection.go.
package driver

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Beginning is the Start of a Consume that reads everything.
const Beginning = -2

// Header is a record's header: its name, and its value or nil.
type Header struct {
	Name  string
	Value []byte
}

// Record is a record that was read, or, without partition or offset, one to send.
type Record struct {
	Partition int32
	Offset    int64
	Timestamp time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Client is one client library.
type Client interface {
	// Produce returns when all records are acknowledged; a partition of -1 is the client's choice.
	Produce(ctx context.Context, topic, codec string, acks int, records []Record) error
	// Consume gives `count` records of all partitions to `take`, from a timestamp in ms or Beginning.
	Consume(ctx context.Context, topic string, count int, start int64, take func(Record)) error
	// Join polls as a member of a group until the context ends, then leaves it.
	Join(ctx context.Context, group, topic, protocol string, member Member) error
	// Version names the version of Kafka that the client takes the broker for.
	Version(ctx context.Context) (string, error)
}

// Member is what a member of a group tells, and from where it learns that it has to commit.
type Member interface {
	Assigned(partitions []int32)
	Received(record Record)
	// Commits gives a channel for each commit that is asked for; it is to be answered.
	Commits() <-chan chan error
}

type wireRecord struct {
	Event     string      `json:"event,omitempty"`
	Partition *int32      `json:"partition"`
	Offset    string      `json:"offset,omitempty"`
	Timestamp *string     `json:"timestamp,omitempty"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][]*string `json:"headers"`
}

type request struct {
	Topic    string       `json:"topic"`
	Group    string       `json:"group"`
	Protocol string       `json:"protocol"`
	Codec    string       `json:"codec"`
	Acks     int          `json:"acks"`
	Count    int          `json:"count"`
	Start    int64        `json:"start"`
	Messages []wireRecord `json:"messages"`

	Output          string `json:"output"`
	TransactionalID string `json:"transactional_id"`
	Prefix          string `json:"prefix"`
}

// Main runs one command with the client that `open` makes, and ends the process.
func Main(open func(Connection) Client) {
	if err := run(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(open func(Connection) Client) error {
	if len(os.Args) != 4 {
		return fmt.Errorf("usage: %s COMMAND BOOTSTRAP REQUEST", os.Args[0])
	}
	text := []byte(os.Args[3])
	if os.Args[3] == "-" {
		var err error
		if text, err = io.ReadAll(os.Stdin); err != nil {
			return err
		}
	}
	var asked request
	if err := json.Unmarshal(text, &asked); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	connection, err := connectionOf(os.Args[2], text)
	if err != nil {
		return err
	}
	client := open(connection)
	switch os.Args[1] {
	case "produce":
		records, err := decodeRecords(asked.Messages)
		if err != nil {
			return err
		}
		return client.Produce(ctx, asked.Topic, asked.Codec, asked.Acks, records)
	case "consume":
		lines := &lineWriter{}
		return client.Consume(ctx, asked.Topic, asked.Count, asked.Start, func(record Record) {
			lines.write(encodeRecord("", record))
		})
	case "join":
		member := &lineMember{commits: make(chan chan error)}
		go member.readCommands(ctx)
		return client.Join(ctx, asked.Group, asked.Topic, asked.Protocol, member)
	case "transact":
		return transact(ctx, client, asked)
	case "copy":
		return copyRecords(ctx, client, asked)
	case "version":
		version, err := client.Version(ctx)
		if err == nil {
			(&lineWriter{}).write(map[string]string{"version": version})
		}
		return err
	}
	return fmt.Errorf("unknown command %q", os.Args[1])
}

// lineWriter prints JSON objects, a line each; for several goroutines.
type lineWriter struct{ mutex sync.Mutex }

func (w *lineWriter) write(object any) {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// lineMember prints a member's events and reads the line "commit".
type lineMember struct {
	lineWriter
	commits chan chan error
}

func (m *lineMember) Assigned(partitions []int32) {
	if partitions == nil {
		partitions = []int32{}
	}
	m.write(map[string]any{"event": "assigned", "partitions": partitions})
}

func (m *lineMember) Received(record Record) { m.write(encodeRecord("record", record)) }

func (m *lineMember) Commits() <-chan chan error { return m.commits }

func (m *lineMember) readCommands(ctx context.Context) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := make(chan error, 1)
		select {
		case m.commits <- answer:
		case <-ctx.Done():
			return
		}
		if err := <-answer; err != nil {
			fmt.Fprintln(os.Stderr, "commit:", err)
			os.Exit(1)
		}
		m.write(map[string]string{"event": "committed"})
	}
}

func encodeRecord(event string, record Record) wireRecord {
	timestamp := strconv.FormatInt(record.Timestamp.UnixMilli(), 10)
	headers := make([][]*string, 0, len(record.Headers))
	for _, header := range record.Headers {
		headers = append(headers, []*string{&header.Name, encodeBytes(header.Value)})
	}
	return wireRecord{
		Event:     event,
		Partition: &record.Partition,
		Offset:    strconv.FormatInt(record.Offset, 10),
		Timestamp: &timestamp,
		Key:       encodeBytes(record.Key),
		Value:     encodeBytes(record.Value),
		Headers:   headers,
	}
}

func decodeRecords(messages []wireRecord) ([]Record, error) {
	records := make([]Record, 0, len(messages))
	for _, message := range messages {
		record := Record{Partition: -1}
		var err error
		if message.Partition != nil {
			record.Partition = *message.Partition
		}
		if message.Timestamp != nil {
			milliseconds, err := strconv.ParseInt(*message.Timestamp, 10, 64)
			if err != nil {
				return nil, err
			}
			record.Timestamp = time.UnixMilli(milliseconds)
		}
		if record.Key, err = decodeBytes(message.Key); err != nil {
			return nil, err
		}
		if record.Value, err = decodeBytes(message.Value); err != nil {
			return nil, err
		}
		for _, pair := range message.Headers {
			value, err := decodeBytes(pair[1])
			if err != nil {
				return nil, err
			}
			record.Headers = append(record.Headers, Header{*pair[0], value})
		}
		records = append(records, record)
	}
	return records, nil
}

func encodeBytes(value []byte) *string {
	if value == nil {
		return nil
	}
	text := base64.StdEncoding.EncodeToString(value)
	return &text
}

func decodeBytes(text *string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	value, err := base64.StdEncoding.DecodeString(*text)
	if value == nil {
		value = []byte{}
	}
	return value, err
}
