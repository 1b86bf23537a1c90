package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// Outcomes of a transaction, as its client knows them.
const (
	Committed = "committed"
	Aborted   = "aborted"
	// Unknown: the commit was asked for, and its answer never came.
	Unknown = "unknown"
)

// Transaction is records that are written together.
type Transaction struct {
	Abort   bool
	Records []Record
}

// Copying says what a copier reads and writes.
type Copying struct {
	Input, Output, Group, TransactionalID string
	// Prefix goes in front of every value.
	Prefix string
}

// Transactor is a client library that has transactions.
type Transactor interface {
	// Transact carries out all transactions of a transactional id, in order, and tells the outcome of each.
	Transact(ctx context.Context, topic, id string, work <-chan Transaction, tell func(outcome string, err error)) error
}

// Copier is one whose groups take part in transactions.
type Copier interface {
	// Copy copies in transactions of `Copying.Group`, and tells the outcome of each, until the context ends.
	// Some of them it aborts on purpose.
	Copy(ctx context.Context, copying Copying, tell func(outcome string, err error)) error
}

func tellOutcomes(outcome string, err error) {
	told := map[string]string{"outcome": outcome}
	if err != nil {
		told["error"] = err.Error()
	}
	(&lineWriter{}).write(told)
}

// transact reads a transaction from each line of stdin and prints a line with its outcome.
func transact(ctx context.Context, client Client, asked request) error {
	transactor, ok := client.(Transactor)
	if !ok {
		return fmt.Errorf("this driver has no transactions")
	}
	work := make(chan Transaction)
	failed := make(chan error, 1)
	go func() {
		defer close(work)
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var one struct {
				Abort    bool         `json:"abort"`
				Messages []wireRecord `json:"messages"`
			}
			err := json.Unmarshal(lines.Bytes(), &one)
			var records []Record
			if err == nil {
				records, err = decodeRecords(one.Messages)
			}
			if err != nil {
				failed <- err
				return
			}
			select {
			case work <- Transaction{one.Abort, records}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := transactor.Transact(ctx, asked.Topic, asked.TransactionalID, work, tellOutcomes); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func copyRecords(ctx context.Context, client Client, asked request) error {
	copier, ok := client.(Copier)
	if !ok {
		return fmt.Errorf("this driver does not copy")
	}
	copying := Copying{asked.Topic, asked.Output, asked.Group, asked.TransactionalID, asked.Prefix}
	return copier.Copy(ctx, copying, tellOutcomes)
}
