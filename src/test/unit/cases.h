/*-------------------------------------------------------------------------
 *
 * cases.h
 *	  Data-driven tests: src/test/unit/cases/NAME has cases with the output that
 *	  is expected of them.
 *
 *		# a comment
 *		command word name=value ...
 *		lines of input
 *		----
 *		lines of output, up to an empty one
 *
 * As in testdata of CockroachDB and Pebble.  With LSM_UNIT_REWRITE the output
 * is written into the file in place of being compared.  LSM_UNIT_CASES is the
 * directory.
 *
 * The includer has ok(good, text).
 *
 *-------------------------------------------------------------------------
 */
#ifndef CASES_H
#define CASES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case
{
	const char *command;
	const char *words;			/* the rest of its line */
	char	   *input;			/* lines not yet taken */
} Case;

/* What the case says; run_cases() compares it. */
static FILE *case_output;

#define say(...) fprintf(case_output, __VA_ARGS__)

/* The next line of input, or NULL. */
static inline char *
case_line(Case *c)
{
	char	   *line = c->input;
	char	   *end = strchr(line, '\n');

	if (end == NULL)
		return NULL;
	*end = '\0';
	c->input = end + 1;
	return line;
}

/*
 * The next word of a line, or NULL; words are separated by blanks.  The line
 * is cut to pieces.
 */
static inline char *
next_word(char **line)
{
	char	   *word = *line + strspn(*line, " ");
	size_t		length = strcspn(word, " ");

	if (length == 0)
		return NULL;
	*line = word + length;
	if (**line != '\0')
		*(*line)++ = '\0';
	return word;
}

/* "name=value" among the case's words: a copy of the value, or NULL. */
static inline char *
case_value(const Case *c, const char *name)
{
	size_t		length = strlen(name);

	for (const char *at = c->words; (at = strstr(at, name)) != NULL; at++)
	{
		if ((at == c->words || at[-1] == ' ') && at[length] == '=')
			return strndup(at + length + 1, strcspn(at + length + 1, " "));
	}
	return NULL;
}

static inline long
case_number(const Case *c, const char *name, long otherwise)
{
	char	   *value = case_value(c, name);
	long		number = value != NULL ? atol(value) : otherwise;

	free(value);
	return number;
}

static char *
read_whole_file(const char *path)
{
	FILE	   *file = fopen(path, "r");
	char	   *text = NULL;
	size_t		room = 0;

	if (file == NULL || getdelim(&text, &room, '\0', file) < 0)
	{
		printf("Bail out! cannot read %s\n", path);
		exit(1);
	}
	fclose(file);
	return text;
}

static void
print_as_comment(const char *title, const char *text, size_t bytes)
{
	printf("# %s\n", title);
	for (const char *at = text; at < text + bytes;)
	{
		const char *end = memchr(at, '\n', text + bytes - at);
		size_t		length = (end != NULL ? end : text + bytes) - at;

		printf("#   %.*s\n", (int) length, at);
		at += length + 1;
	}
}

/* Runs a case; *output is malloc'd. */
static void
run_case(void (*run) (Case *c), const char *command, const char *input, size_t input_bytes,
		 char **output, size_t *output_bytes)
{
	char	   *line = strndup(command, strcspn(command, "\n"));
	char	   *lines = strndup(input, input_bytes);
	size_t		word = strcspn(line, " ");
	Case		c = {.command = line,.words = "",.input = lines};

	if (line[word] != '\0')
	{
		line[word] = '\0';
		c.words = line + word + 1;
	}
	case_output = open_memstream(output, output_bytes);
	run(&c);
	fclose(case_output);
	if (*c.input != '\0')
	{
		printf("Bail out! input of \"%s\" is left: %s\n", c.command, c.input);
		exit(1);
	}
	free(lines);
	free(line);
}

/* All cases of the file, one after the other. */
static void
run_cases(const char *name, void (*run) (Case *c))
{
	const char *directory = getenv("LSM_UNIT_CASES");
	bool		rewrite = getenv("LSM_UNIT_REWRITE") != NULL;
	char		path[4096];
	char	   *text;
	const char *at;
	int			line = 1;
	FILE	   *rewritten = NULL;

	snprintf(path, sizeof(path), "%s/%s", directory != NULL ? directory : "src/test/unit/cases",
			 name);
	text = read_whole_file(path);
	if (rewrite)
		rewritten = fopen(path, "w");
	for (at = text; *at != '\0';)
	{
		const char *input;
		const char *separator;
		const char *expected;
		const char *end;
		char	   *output;
		size_t		bytes;
		char		label[256];

		input = at + strcspn(at, "\n") + 1;
		if (*at == '#' || *at == '\n')
		{
			if (rewritten != NULL)
				fprintf(rewritten, "%.*s", (int) (input - at), at);
			at = input;
			line++;
			continue;
		}
		separator = strncmp(input, "----\n", 5) == 0 ? input : strstr(input, "\n----\n");
		if (separator == NULL)
		{
			printf("Bail out! %s:%d has no output\n", name, line);
			exit(1);
		}
		if (separator != input)
			separator++;
		expected = separator + 5;
		end = *expected == '\n' ? expected : strstr(expected, "\n\n");
		end = end == NULL ? expected + strlen(expected) : *expected == '\n' ? end : end + 1;

		run_case(run, at, input, separator - input, &output, &bytes);
		snprintf(label, sizeof(label), "cases/%s:%d %.*s", name, line,
				 (int) strcspn(at, "\n"), at);
		if (rewritten != NULL)
			fprintf(rewritten, "%.*s%s", (int) (expected - at), at, output);
		else
		{
			bool		same = bytes == (size_t) (end - expected) &&
				memcmp(output, expected, bytes) == 0;

			ok(same, label);
			if (!same)
			{
				print_as_comment("expected:", expected, end - expected);
				print_as_comment("got:", output, bytes);
			}
		}
		free(output);
		for (; at < end; at++)
			line += *at == '\n';
	}
	free(text);
	if (rewritten != NULL)
	{
		fclose(rewritten);
		ok(true, "cases are written");
	}
}

#endif							/* CASES_H */
