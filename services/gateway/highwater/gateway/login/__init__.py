"""Who a client is: SASL logins on listeners that ask for one."""
