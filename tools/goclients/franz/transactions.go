package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"highwater.invalid/goclients/driver"
)

const (
	transactionTimeout = 30 * time.Second
	// A session timeout of the group: dead members are to be noticed within a test.
	sessionTimeout = 6 * time.Second
	// A broker that hangs or is cut off is to be noticed within a test, too. A client asks it up to six times, and each
	// connection and each answer may take 10 s by default; that to a JoinGroup as long as a rebalance more, a minute.
	brokerTimeout    = 3 * time.Second
	rebalanceTimeout = 6 * time.Second
	// How long one operation may take, retries included.
	patience       = 60 * time.Second
	pollTimeout    = 200 * time.Millisecond
	batchMax       = 50
	abortEvery     = 6
	replacementMax = 20
	// The pause before a producer id is asked for again.
	producerIDAgain = 100 * time.Millisecond
)

// transactional opens a client whose transactional id is its own: what a former one left open has ended.
func (f franz) transactional(ctx context.Context, id string) (*kgo.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		client, err := f.identified(ctx, id)
		if err == nil {
			return client, nil
		}
		if !passes(err) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(producerIDAgain):
		}
	}
}

// identified opens a client and asks for its producer id, once.
func (f franz) identified(ctx context.Context, id string) (*kgo.Client, error) {
	client, err := f.open(
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DialTimeout(brokerTimeout),
		kgo.RequestTimeoutOverhead(brokerTimeout),
	)
	if err != nil {
		return nil, err
	}
	if _, _, err = client.ProducerID(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("producer id: %w", err)
	}
	return client, nil
}

// passes says whether it is worth asking for a producer id again. The library itself gives up after a few refused
// connections, which a coordinator's death may outlast.
func passes(err error) bool {
	var refused *net.OpError
	return errors.Is(err, kerr.ConcurrentTransactions) || errors.As(err, &refused)
}

func (f franz) Transact(ctx context.Context, topic, id string, work <-chan driver.Transaction, tell func(string, error)) error {
	client, err := f.transactional(ctx, id)
	if err != nil {
		return err
	}
	defer func() { client.Close() }()
	for {
		var one driver.Transaction
		select {
		case <-ctx.Done():
			return nil
		case next, more := <-work:
			if !more {
				return nil
			}
			one = next
		}
		outcome, err := transact(client, topic, one)
		if err != nil {
			client.Close()
			// The next client ends what is open; before that nothing is certain.
			next, opening := f.transactional(ctx, id)
			if opening != nil {
				return errors.Join(err, opening)
			}
			client = next
		}
		tell(outcome, err)
	}
}

// transact carries out one transaction; after an error the client must be replaced.
func transact(client *kgo.Client, topic string, one driver.Transaction) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := client.BeginTransaction(); err != nil {
		return driver.Aborted, err
	}
	produced := client.ProduceSync(ctx, sending(topic, one.Records)...).FirstErr()
	if produced == nil && !one.Abort {
		err := client.EndTransaction(ctx, kgo.TryCommit)
		if err == nil {
			return driver.Committed, nil
		}
		if !errors.Is(err, kerr.OperationNotAttempted) && !errors.Is(err, kerr.TransactionAbortable) {
			return driver.Unknown, err
		}
	}
	if err := client.AbortBufferedRecords(ctx); err != nil {
		return driver.Aborted, err
	}
	return driver.Aborted, client.EndTransaction(ctx, kgo.TryAbort)
}

func (f franz) Copy(ctx context.Context, copying driver.Copying, tell func(string, error)) error {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		err := f.copySession(ctx, copying, tell)
		if err == nil {
			return nil
		}
		if attempt == replacementMax {
			return err
		}
		tell(driver.Unknown, err)
	}
	return nil
}

// copySession copies with one client, until the context ends or the client cannot go on.
func (f franz) copySession(ctx context.Context, copying driver.Copying, tell func(string, error)) error {
	session, err := kgo.NewGroupTransactSession(f.with(
		kgo.TransactionalID(copying.TransactionalID),
		kgo.TransactionTimeout(transactionTimeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(copying.Group),
		kgo.ConsumeTopics(copying.Input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.DialTimeout(brokerTimeout),
		kgo.RequestTimeoutOverhead(brokerTimeout),
		kgo.HeartbeatInterval(time.Second),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	for count := 1; ctx.Err() == nil; count++ {
		records := poll(ctx, session)
		if len(records) == 0 {
			continue
		}
		outcome, err := copyTogether(session, copying, records, count%abortEvery != 0)
		if err != nil {
			return err
		}
		tell(outcome, nil)
	}
	return nil
}

func poll(ctx context.Context, session *kgo.GroupTransactSession) []*kgo.Record {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return session.PollRecords(ctx, batchMax).Records()
}

// copyTogether writes copies and offsets in one transaction. It is not interrupted.
func copyTogether(session *kgo.GroupTransactSession, copying driver.Copying, records []*kgo.Record, commit bool) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.Begin(); err != nil {
		return "", err
	}
	copies := make([]*kgo.Record, 0, len(records))
	for _, record := range records {
		copies = append(copies, &kgo.Record{
			Topic:     copying.Output,
			Partition: record.Partition,
			Key:       record.Key,
			Value:     append([]byte(copying.Prefix), record.Value...),
		})
	}
	produced := session.ProduceSync(ctx, copies...).FirstErr()
	committed, err := session.End(ctx, kgo.TransactionEndTry(commit && produced == nil))
	if committed {
		return driver.Committed, err
	}
	return driver.Aborted, err
}
