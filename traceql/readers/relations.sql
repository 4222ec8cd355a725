-- What the SQL of all profilers uses.

-- A member of a JSON object; NULL without a value. Texts are escaped.
CREATE MACRO member(name, value) AS '"' || name || '":' || value;
CREATE MACRO text_member(name, value) AS '"' || name || '":' || CAST(to_json(CAST(value AS VARCHAR)) AS VARCHAR);
-- The object of such members, which concat_ws(',', ...) joins; NULL if none is left.
CREATE MACRO object(members) AS CASE WHEN members <> '' THEN '{' || members || '}' END;
-- A grid or a block; NULL unless all sizes are possible.
CREATE MACRO is_size(value) AS value BETWEEN 1 AND 2147483647;
CREATE MACRO triple(x, y, z) AS CASE
    WHEN is_size(x) AND is_size(y) AND is_size(z)
        THEN [CAST(x AS INTEGER), CAST(y AS INTEGER), CAST(z AS INTEGER)]
END;
-- A text for a code; the code itself if it has none, `unknown` without one.
CREATE MACRO word(code, words) AS COALESCE(words[code], CAST(code AS VARCHAR), 'unknown');
-- A row of the relation load_check; `value` is NULL where there is nothing to say.
CREATE MACRO statement(name, value, total, ok, note) AS {
    'check_name': name, 'value': value, 'total': total, 'ok': ok, 'note': note
};
